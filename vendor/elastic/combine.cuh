// Combine: every received token's rows are reduced on this rank, and the sum goes back to its source as one BF16 row.
#pragma once
#include "reduce.cuh"
#include "symmetric.cuh"

namespace elastic {

namespace combine_detail {

// The token's only local row goes back as it is.
PRIM_FN void forward_row(const Exchange& e, int row, char* record, prim::Mbarrier* loaded, std::uint32_t parity) {
  prim::bulk_wait();
  prim::elect([&] {
    prim::mbarrier_expect(loaded, e.combine.hidden_bytes);
    prim::bulk_load(record, e.replies + static_cast<std::int64_t>(row) * e.combine.hidden_bytes, e.combine.hidden_bytes, loaded);
  });
  prim::mbarrier_wait(loaded, parity);
}

// Replies to received token i. Returns whether the slot's mbarrier completed a phase.
template <int kPrefix, int kUnroll>
PRIM_FN bool reply_token(const Exchange& e, int i, int slot, std::uint32_t parity) {
  prim::begin_task(i);
  char* record = prim::shared<char>(slot);
  int* list = reinterpret_cast<int*>(record + e.combine.metadata_offset());
  const int* metadata = e.source_metadata + static_cast<std::int64_t>(i) * (e.top_k + 2);
  const auto field = prim::lanes([&](int l) { return l < 2 ? prim::load(metadata + l) : 0; });
  const auto row = prim::lanes([&](int l) { return l < e.top_k ? prim::load(metadata + 2 + l) : -1; });
  const int source_id = prim::broadcast(field, 0), master = prim::broadcast(field, 1) % e.top_k;
  const int count = compact(row, list);
  const bool single = count == 1;
  if (single)
    forward_row(e, list[0], record, slot_mbarrier(slot, e.combine), parity);
  else
    reduce_rows<kPrefix, kUnroll>({e.replies, e.combine.hidden_bytes, list, count}, e.reduce_prefix, e.combine.hidden_bytes, record,
                                  [] { prim::bulk_wait(); });
  prim::fence_proxy_async();
  prim::sync_warp();
  prim::elect([&] {
    const int region = reply_region(e, e.rank, master);
    prim::bulk_store(peer_word<char>(e, source_id / e.capacity, combine_record(e, region, source_id % e.capacity)), record,
                     e.combine.hidden_bytes);
  });
  prim::bulk_commit();
  return single;
}

// Received tokens in contiguous blocks a warp; warps are numbered SM first and rotated by rank, so that peers start elsewhere.
template <int kPrefix, int kUnroll>
PRIM_FN void reply_tokens(const Exchange& e) {
  const int slot = slot_offset(0, prim::warp(), e.combine);
  const int received = received_tokens(e);
  const int warps = prim::num_ctas() * prim::num_warps();
  const int index = ((prim::warp() + e.rank) % prim::num_warps()) * prim::num_ctas() + prim::cta();
  const int block = (received + warps - 1) / warps;
  std::uint32_t parity = 0;
  for (int i = index * block; i < (index + 1) * block && i < received; ++i)
    if (reply_token<kPrefix, kUnroll>(e, i, slot, parity)) parity ^= 1;
}

}  // namespace combine_detail

// kPrefix: compiled_prefix(e.reduce_prefix); kUnroll: reduce_unroll of a row; kThreads: compiled_threads of the launch.
template <class Protocol, int kPrefix, int kUnroll, int kThreads>
PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(kThreads) combine(PRIM_ARGS(Exchange) e) {
  const int slot = slot_offset(0, prim::warp(), e.combine);
  prim::elect([&] {
    prim::mbarrier_init(slot_mbarrier(slot, e.combine), 1);
    prim::fence_mbarrier_init();
  });
  prim::sync_warp();
  Protocol::open(e, kCombine);
  combine_detail::reply_tokens<kPrefix, kUnroll>(e);
  Protocol::close(e, kCombine);
}

}  // namespace elastic
