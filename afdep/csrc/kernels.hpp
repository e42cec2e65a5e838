// Which kernel runs: the protocol's, with the reduction compiled for the exchange's prefix and row.
#pragma once
#include "../../vendor/elastic/combine.cuh"
#include "../../vendor/elastic/combine_columns.cuh"
#include "../../vendor/elastic/copy_epilogue.cuh"
#include "../../vendor/elastic/dispatch.cuh"
#include "../../vendor/elastic/reduce_epilogue.cuh"
#include "directed.cuh"
#include "expert_transform.cuh"

namespace afdep {

using Kernel = void (*)(PRIM_ARGS(elastic::Exchange));

namespace kernels_detail {

template <class Protocol>
struct Combine {
  template <int kPrefix, int kUnroll>
  static Kernel get() {
    return &elastic::combine<Protocol, kPrefix, kUnroll>;
  }
};
struct ReduceEpilogue {
  template <int kPrefix, int kUnroll>
  static Kernel get() {
    return &elastic::reduce_epilogue<kPrefix, kUnroll>;
  }
};

template <class Family, int kUnroll>
Kernel of_prefix(int prefix) {
  switch (elastic::compiled_prefix(prefix)) {
    case 8: return Family::template get<8, kUnroll>();
    case 4: return Family::template get<4, kUnroll>();
    case 3: return Family::template get<3, kUnroll>();
    case 2: return Family::template get<2, kUnroll>();
    default: return Family::template get<1, kUnroll>();
  }
}
template <class Family>
Kernel of_reduction(int prefix, int hidden_bytes) {
  switch (elastic::reduce_unroll(hidden_bytes)) {
    case 4: return of_prefix<Family, 4>(prefix);
    case 3: return of_prefix<Family, 3>(prefix);
    case 2: return of_prefix<Family, 2>(prefix);
    default: return of_prefix<Family, 1>(prefix);
  }
}

}  // namespace kernels_detail

inline Kernel dispatch_kernel(bool directed) { return directed ? &elastic::dispatch<Directed> : &elastic::dispatch<elastic::Symmetric>; }
// Every row of a token is local where one rank holds all experts: that reduction goes in columns.
inline bool reduces_in_columns(bool directed, const elastic::Exchange& e) {
  return directed && e.num_routed_ranks == 1 && (e.switches & kUnionReducePrefix) == 0;
}
inline Kernel combine_kernel(bool directed, const elastic::Exchange& e) {
  using namespace kernels_detail;
  if (reduces_in_columns(directed, e)) return &elastic::combine_columns<Directed>;
  return directed ? of_reduction<Combine<Directed>>(e.reduce_prefix, e.combine.hidden_bytes)
                  : of_reduction<Combine<elastic::Symmetric>>(e.reduce_prefix, e.combine.hidden_bytes);
}
inline Kernel reduce_kernel(const elastic::Exchange& e) {
  return kernels_detail::of_reduction<kernels_detail::ReduceEpilogue>(e.collect_prefix, e.combine.hidden_bytes);
}

}  // namespace afdep
