// Which kernel runs: the protocol's, with the reduction compiled for the exchange's prefix, row and launch.
#pragma once
#include "../../vendor/elastic/combine.cuh"
#include "../../vendor/elastic/combine_columns.cuh"
#include "../../vendor/elastic/copy_epilogue.cuh"
#include "../../vendor/elastic/copy_replies.cuh"
#include "../../vendor/elastic/dispatch.cuh"
#include "../../vendor/elastic/reduce_epilogue.cuh"
#include "directed.cuh"
#include "expert_transform.cuh"
#include "shapes.hpp"

namespace afdep {

using Kernel = void (*)(PRIM_ARGS(elastic::Exchange));

namespace kernels_detail {

template <class Protocol>
struct Combine {
  template <int kPrefix, int kUnroll, int kThreads>
  static Kernel get() {
    return &elastic::combine<Protocol, kPrefix, kUnroll, kThreads>;
  }
};
struct ReduceEpilogue {
  template <int kPrefix, int kUnroll, int kThreads>
  static Kernel get() {
    return &elastic::reduce_epilogue<kPrefix, kUnroll, kThreads>;
  }
};

template <class Family, int kUnroll, int kThreads>
Kernel of_prefix(int prefix) {
  switch (elastic::compiled_prefix(prefix)) {
    case 8: return Family::template get<8, kUnroll, kThreads>();
    case 4: return Family::template get<4, kUnroll, kThreads>();
    case 3: return Family::template get<3, kUnroll, kThreads>();
    case 2: return Family::template get<2, kUnroll, kThreads>();
    default: return Family::template get<1, kUnroll, kThreads>();
  }
}
template <class Family>
Kernel of_long_rows(int prefix, int threads) {
#ifdef __CUDACC__
  switch (elastic::compiled_threads(threads, 4)) {
    case 512: return of_prefix<Family, 4, 512>(prefix);
    case 896: return of_prefix<Family, 4, 896>(prefix);
  }
#endif
  return of_prefix<Family, 4, 1024>(prefix);
}
template <class Family>
Kernel of_reduction(int prefix, int hidden_bytes, int threads) {
  switch (elastic::reduce_unroll(hidden_bytes)) {
    case 4: return of_long_rows<Family>(prefix, threads);
    case 3: return of_prefix<Family, 3, 1024>(prefix);
    case 2: return of_prefix<Family, 2, 1024>(prefix);
    default: return of_prefix<Family, 1, 1024>(prefix);
  }
}

}  // namespace kernels_detail

inline Kernel dispatch_kernel(bool directed) { return directed ? &elastic::dispatch<Directed> : &elastic::dispatch<elastic::Symmetric>; }
inline Kernel combine_kernel(const Shapes& shapes, const elastic::Exchange& e) {
  using namespace kernels_detail;
  if (shapes.one_replier()) return &elastic::combine_columns<Directed>;
  const int bytes = e.combine.hidden_bytes, threads = shapes.combine_launch().threads;
  return shapes.directed() ? of_reduction<Combine<Directed>>(e.reduce_prefix, bytes, threads)
                           : of_reduction<Combine<elastic::Symmetric>>(e.reduce_prefix, bytes, threads);
}
inline Kernel collect_kernel(const Shapes& shapes, const elastic::Exchange& e) {
  if (shapes.one_replier()) return &elastic::copy_replies;
  return kernels_detail::of_reduction<kernels_detail::ReduceEpilogue>(e.collect_prefix, e.combine.hidden_bytes,
                                                                      shapes.collect_launch(e.num_tokens).threads);
}

}  // namespace afdep
