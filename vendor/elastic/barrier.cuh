// The all-rank barrier over the window: each rank adds +1 or -1 to a signal word of every rank and waits for its own word.
// The low bit of the local round picks the word and the next one the sign, so that no word is ever cleared: its target
// alternates between num_ranks and 0.
#pragma once
#include "exchange.cuh"

namespace elastic {

// Called by all threads of CTA 0.
PRIM_FN void barrier_all_ranks(const Exchange& e, const char* name) {
  auto* round = own_word<std::uint64_t>(e, WorkspaceLayout::kBarrierRound);
  const std::uint64_t now = prim::load(round);
  const std::int64_t signal = WorkspaceLayout::kBarrierSignals + static_cast<std::int64_t>(now & 1) * 4;
  const bool up = (now >> 1 & 1) == 0;
  prim::for_strided(prim::warp(), prim::num_warps(), e.num_ranks,
                    [&](int peer) { prim::add_release_sys(peer_word<int>(e, peer, signal), up ? 1 : -1); });
  prim::sync_cta();
  if (prim::warp() != 0) return;
  prim::elect([&] {
    prim::store(round, now + 1);
    const int target = up ? e.num_ranks : 0;
    prim::wait_until(e.guard, own_word<int>(e, signal), [&](int seen) { return seen == target; },
                     {name, -1, static_cast<std::uint64_t>(target)});
  });
  prim::sync_warp();
}

}  // namespace elastic
