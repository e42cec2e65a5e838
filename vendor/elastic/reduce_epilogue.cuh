// The fourth kernel: sums the replies to each of this rank's tokens, in ascending order of the last lane that named the replier.
// Rows of y past the tokens that count become zeros, as those of a token without a route.
#pragma once
#include "failure.cuh"
#include "poison.cuh"
#include "reduce.cuh"

namespace elastic {

// Shared memory of one warp: the row and the list of its replies.
ELASTIC_HOST_DEVICE constexpr int reduce_slot_bytes(int hidden_bytes, int top_k) { return align_up(hidden_bytes + top_k * 4, 32); }

namespace epilogue_detail {

template <int kPrefix, int kUnroll>
PRIM_FN void collect_token(const Exchange& e, int token, int tokens, int slot) {
  prim::begin_task(token);
  char* to = prim::shared<char>(slot);
  int* list = reinterpret_cast<int*>(to + e.combine.hidden_bytes);
  const auto owner = prim::lanes([&](int l) {
    const int expert = token < tokens ? routed_expert(e, token, l) : -1;
    return expert < 0 ? -1 - l : expert / e.experts_per_rank;
  });
  const auto same = prim::match(owner);
  const auto region = prim::lanes([&](int l) {
    return owner.at(l) >= 0 && prim::highest_bit(same.at(l)) == l ? reply_region(e, owner.at(l), l) : -1;
  });
  const int count = compact(region, list);
  const char* replies = own_word<char>(e, combine_record(e, 0, token));
  const std::int64_t stride = static_cast<std::int64_t>(e.capacity) * e.combine.bytes();
  reduce_rows<kPrefix, kUnroll>({replies, stride, list, count}, e.collect_prefix, e.combine.hidden_bytes, to, [] { prim::bulk_wait(); });
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] { prim::bulk_store(e.y + static_cast<std::int64_t>(token) * e.combine.hidden_bytes, to, e.combine.hidden_bytes); });
  prim::bulk_commit();
}

}  // namespace epilogue_detail

// kPrefix: compiled_prefix(e.collect_prefix); kUnroll: reduce_unroll of a row; kThreads: compiled_threads of the launch.
template <int kPrefix, int kUnroll, int kThreads>
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(kThreads) reduce_epilogue(PRIM_ARGS(Exchange) e) {
  const int slot = prim::warp() * reduce_slot_bytes(e.combine.hidden_bytes, e.top_k);
  prim::wait_for_predecessor();
  const int tokens = num_tokens(e);
  const auto ended = gave_up(e);
  for (int t = prim::cta() + prim::warp() * prim::num_ctas(); t < e.num_tokens; t += prim::num_ctas() * prim::num_warps())
    epilogue_detail::collect_token<kPrefix, kUnroll>(e, t, tokens, slot);
  prim::bulk_wait();
  if (prim::broadcast(ended, 0) != 0) poison_collected(e);
}

}  // namespace elastic
