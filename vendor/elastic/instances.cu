// The symmetric protocol's four kernels as device code of their own; the reductions as two and four ranks have them with eight
// lanes a token and rows of a multiple of 2 KB. vendor/HASHES pins it: no change elsewhere may alter it.
#include "combine.cuh"
#include "copy_epilogue.cuh"
#include "dispatch.cuh"
#include "reduce_epilogue.cuh"

namespace elastic {

template PRIM_KERNEL void dispatch<Symmetric>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric, 2, 4, 1024>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric, 4, 4, 1024>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric, 2, 4, 896>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric, 4, 4, 896>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric, 2, 4, 512>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void reduce_epilogue<2, 4, 1024>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void reduce_epilogue<4, 4, 1024>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void reduce_epilogue<2, 4, 896>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void reduce_epilogue<4, 4, 896>(PRIM_ARGS(Exchange));

}  // namespace elastic
