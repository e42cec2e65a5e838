// The directed protocol's kernels as device code; the two epilogues it shares are instantiated with the symmetric protocol's.
#include "../../vendor/elastic/combine_columns.cuh"
#include "../../vendor/elastic/copy_replies.cuh"
#include "../../vendor/elastic/dispatch.cuh"
#include "directed.cuh"
#include "expert_transform.cuh"

namespace elastic {

template PRIM_KERNEL void dispatch<afdep::Directed>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine<afdep::Directed, 2, 4, 1024>(PRIM_ARGS(Exchange));
template PRIM_KERNEL void combine_columns<afdep::Directed>(PRIM_ARGS(Exchange));

}  // namespace elastic
