// The fourth kernel where one rank replies: a token's only reply is its result. A warp a token, and no more warps than tokens, so
// that the grid starts quickly; bulk copies move the row.
#pragma once
#include "failure.cuh"
#include "poison.cuh"

namespace elastic {

namespace copy_replies_detail {

// The lanes of a token that name an expert. Ids are the rank's own input, written by no kernel of the exchange.
PRIM_FN std::uint32_t routes(const Exchange& e, int token, int tokens) {
  return prim::ballot(prim::lanes([&](int l) { return token < tokens && routed_expert(e, token, l) >= 0; }));
}

PRIM_FN void write_zeros(const Exchange& e, char* row) {
  prim::for_vectors(e.combine.hidden_bytes / 16, [&](int v) { reinterpret_cast<prim::Vec16*>(row)[v] = prim::Vec16{}; });
  prim::fence_proxy_async();
  prim::sync_warp();
}
PRIM_FN void load_reply(const Exchange& e, int token, int master_lane, char* row, prim::Mbarrier* loaded, std::uint32_t parity) {
  const char* reply = own_word<char>(e, combine_record(e, reply_region(e, e.first_replier, master_lane), token));
  prim::elect([&] {
    prim::mbarrier_expect(loaded, e.combine.hidden_bytes);
    prim::bulk_load(row, reply, e.combine.hidden_bytes, loaded);
  });
  prim::mbarrier_wait(loaded, parity);
}

PRIM_FN void copy_replies(const Exchange& e, int slot) {
  char* row = prim::shared<char>(slot);
  const int tokens = num_tokens(e), stride = prim::num_ctas() * prim::num_warps();
  int t = prim::cta() + prim::warp() * prim::num_ctas();
  std::uint32_t routed = routes(e, t, tokens);
  prim::wait_for_predecessor();
  const auto ended = gave_up(e);
  for (std::uint32_t parity = 0; t < e.num_tokens; t += stride) {
    prim::begin_task(t);
    const std::uint32_t next = routes(e, t + stride, tokens);
    prim::bulk_wait();
    if (routed != 0) {
      load_reply(e, t, prim::highest_bit(routed), row, slot_mbarrier(slot, e.combine), parity);
      parity ^= 1;
    } else {
      write_zeros(e, row);
    }
    prim::elect([&] { prim::bulk_store(e.y + static_cast<std::int64_t>(t) * e.combine.hidden_bytes, row, e.combine.hidden_bytes); });
    prim::bulk_commit();
    routed = next;
  }
  prim::bulk_wait();
  if (prim::broadcast(ended, 0) != 0) poison_collected(e);
}

}  // namespace copy_replies_detail

PRIM_KERNEL void PRIM_LAUNCH_BOUNDS(1024) copy_replies(PRIM_ARGS(Exchange) e) {
  const int slot = slot_offset(0, prim::warp(), e.combine);
  prim::elect([&] {
    prim::mbarrier_init(slot_mbarrier(slot, e.combine), 1);
    prim::fence_mbarrier_init();
  });
  prim::sync_warp();
  copy_replies_detail::copy_replies(e, slot);
}

}  // namespace elastic
