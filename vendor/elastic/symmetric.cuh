// The symmetric protocol: every rank sends, receives and waits in both phases.
#pragma once
#include "barrier.cuh"

namespace elastic {

// Ranks [first, last).
struct RankRange {
  int first, last;
};

// This thread's bulk stores have landed everywhere, and generic accesses that follow are ordered behind them.
PRIM_FN void drain() {
  prim::bulk_wait();
  prim::fence_proxy_async();
}

struct Symmetric {
  // Nobody writes before every rank has arrived, that is, has read what the previous exchange left in its inbox.
  static PRIM_FN void open(const Exchange& e, Phase phase) {
    if (prim::cta() == 0) barrier_all_ranks(e, phase == kDispatch ? "dispatch entry barrier" : "combine entry barrier");
    prim::sync_grid();
  }
  // What this rank sent has landed, and so has what everybody sent.
  static PRIM_FN void close(const Exchange& e, Phase phase) {
    drain();
    prim::sync_grid();
    if (prim::cta() == 0) barrier_all_ranks(e, phase == kDispatch ? "dispatch exit barrier" : "combine exit barrier");
  }
  // Every thread; a CTA's first one speaks for it. What the kernel may still await then is the exit barrier.
  static PRIM_FN void trigger() { prim::launch_dependents(); }
  // All threads, after the trigger. The grid sync of close() has ended every use of the slots.
  static PRIM_FN void reset_slots(const Exchange& e) {
    if (prim::cta() != 0) return;
    prim::for_strided(prim::warp(), prim::num_warps(), e.num_ranks,
                      [&](int peer) { prim::store(own_word<int>(e, workspace(e).slots()) + peer, 0); });
  }
  // Which copy of the count words this exchange uses. One is enough: the entry barrier keeps the next exchange's counts away.
  static PRIM_FN int count_copy(const Exchange&) { return 0; }
  static PRIM_FN void counts_done(const Exchange&) {}
  // Whom this rank tells its counts, and whose counts it awaits.
  static PRIM_FN RankRange count_receivers(const Exchange& e) { return {0, e.num_ranks}; }
  static PRIM_FN RankRange count_senders(const Exchange& e) { return {0, e.num_ranks}; }
};

}  // namespace elastic
