// The symmetric protocol's four kernels as device code of their own. vendor/HASHES pins it: no change elsewhere may alter it.
#include "combine.cuh"
#include "copy_epilogue.cuh"
#include "dispatch.cuh"
#include "reduce_epilogue.cuh"

namespace elastic {

template PRIM_KERNEL void dispatch<Symmetric>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<Symmetric>(PRIM_ARGS(Exchange));

}  // namespace elastic
