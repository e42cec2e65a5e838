// The role-directed protocol: Attention ranks [F, F + A) send in dispatch and receive in combine, FFN ranks [0, F) the reverse.
//
// Why neither phase needs an entry barrier. Notation: s a source, f an FFN rank, N an exchange.
//   1. A rank enqueues whole dispatch -> combine pairs on one ordered stream, and a main kernel (dispatch, combine) launches
//      without programmatic dependent launch: it starts after the epilogue before it has completed.
//   2. An FFN rank's inbox takes dispatch records only. s writes records N+1 in its dispatch kernel N+1, which by 1 follows its
//      combine kernel N, whose close() awaited every CTA of f's combine kernel N. By 1 that kernel started after f's copy
//      epilogue N, the last reader of any source's records N, had completed; and those had all landed, since f's dispatch
//      kernel N awaited every source. So the argument is about readers that are done, not about addresses: regions may move
//      with the bucket. Within one exchange each source has a region of its own.
//   3. A source's inbox takes replies only, and f writes region f of it alone (or its tokens' master lanes, which no other FFN
//      rank writes). f writes replies N+1 in its combine kernel N+1, which by 1 follows its dispatch kernel N+1, whose close()
//      awaited every CTA of s's dispatch kernel N+1. By 1 that kernel started after s's reduce epilogue N, the last reader of
//      replies N, had completed.
//   4. Count words of s at f: f clears them in dispatch kernel N, s writes them in dispatch kernel N+1; ordered as in 2.
//   5. With AFDEP_UNION_NOTIFY ranks of one role exchange counts too, and nothing orders f's dispatch kernel N+1 behind another FFN
//      rank g's dispatch kernel N: f's counts N+1 may reach g before g has taken f's counts N. They go to the other of two copies.
//      Two suffice: f's dispatch kernel N+1 cannot end before the sources', which by 2 follow g's combine kernel N.
//   6. Arrival counters only grow, and the receiver compares with its own round: nothing is reset.
//   7. A rank that gives up still releases its arrivals, over replies it did not write. No source takes them for good: whoever finds
//      out, by a time-out of its own or by its abort word, sets every rank's abort word before its kernel goes on, release_arrival()
//      is cumulative over that (in the same kernel through the grid's or the CTA's barrier, in a later one through the kernel
//      boundary), and a source's host reads its abort word behind the arrivals that the source acquired.
//   8. Nor does it send records or counts any more: the order of 1 holds between exchanges that came to their end, and a source that
//      gave up on one starts the next while its receivers may still read what it sent. Its own abort word is set by then, in a kernel
//      before or ahead of the entry barrier's grid sync, and every dispatch warp asks it before its first record or count goes out. A
//      source that learns of another rank's abort there is silent too: it passes the abort on before it releases, as in 7, since its
//      receivers need not have heard.
// Two ranks of one role never write each other's memory, and a symmetric world has no such order: there every rank writes every
// inbox in both phases. The premise of 1 is load-bearing: a main kernel with programmatic launch breaks 2 and 3.
#pragma once
#include "../../vendor/elastic/symmetric.cuh"
#include "switches.hpp"

namespace afdep {

using elastic::Exchange;
using elastic::Phase;
using elastic::RankRange;
using elastic::WorkspaceLayout;

PRIM_FN bool has(const Exchange& e, Switch s) { return (e.switches & s) != 0; }
PRIM_FN RankRange ffn_ranks(const Exchange& e) { return {0, e.num_routed_ranks}; }
PRIM_FN RankRange attention_ranks(const Exchange& e) { return {e.num_routed_ranks, e.num_ranks}; }
PRIM_FN bool is_ffn(const Exchange& e) { return e.rank < e.num_routed_ranks; }
PRIM_FN bool sends(const Exchange& e, Phase phase) { return (phase == elastic::kDispatch) != is_ffn(e); }

namespace directed_detail {

// What a sender adds to each receiver's counter in one exchange.
PRIM_FN int arrivals_per_exchange(const Exchange& e) { return has(e, kGridSyncExit) ? 1 : prim::num_ctas(); }

// This CTA's stores have landed (close() drained every warp): tell every receiver.
PRIM_FN void release_arrival(const Exchange& e, Phase phase) {
  if (has(e, kGridSyncExit)) {
    prim::sync_grid();
    if (prim::cta() != 0) return;
  } else {
    prim::sync_cta();
  }
  if (prim::warp() != 0) return;
  const RankRange receivers = phase == elastic::kDispatch ? ffn_ranks(e) : attention_ranks(e);
  const std::int64_t word = elastic::workspace(e).arrival(phase, e.rank);
  prim::for_strided(0, 1, receivers.last - receivers.first, [&](int i) {
    prim::add_release_sys(elastic::peer_word<std::uint64_t>(e, receivers.first + i, word), std::uint64_t{1});
  });
}

// Warp 0 of CTA 0 awaits every sender's CTAs of this round. It launches the epilogue once each sender is known to run the kernel that
// is awaited: a source by its counts, an FFN rank by a first CTA's arrival. From then on nobody needs anything of this rank, so an
// epilogue may hold its SMs; any earlier it could hold them against a kernel that a peer waits for.
PRIM_FN void await_arrivals(const Exchange& e, Phase phase) {
  if (prim::cta() != 0 || prim::warp() != 0) return;
  auto* rounds = elastic::own_word<std::uint64_t>(e, WorkspaceLayout::kRounds) + phase;
  const std::uint64_t round = prim::load(rounds) + 1;
  const std::uint64_t expected = round * static_cast<std::uint64_t>(arrivals_per_exchange(e));
  const RankRange senders = phase == elastic::kDispatch ? attention_ranks(e) : ffn_ranks(e);
  const char* name = phase == elastic::kDispatch ? "dispatch arrivals" : "combine arrivals";
  const auto await = [&](std::uint64_t least) {
    prim::wait_all(
        e.guard, senders.last - senders.first,
        [&](int i) { return elastic::own_word<std::uint64_t>(e, elastic::workspace(e).arrival(phase, senders.first + i)); },
        [&](int, std::uint64_t seen) { return seen >= least; },
        [&](int i) { return prim::Wait{name, senders.first + i, least}; });
  };
  if (phase == elastic::kCombine) await(expected - static_cast<std::uint64_t>(arrivals_per_exchange(e)) + 1);
  prim::launch_dependents();
  await(expected);
  prim::elect([&] { prim::store(rounds, round); });
}

PRIM_FN void clear_slots(const Exchange& e) {
  prim::for_strided(0, 1, e.num_ranks, [&](int peer) { prim::store(elastic::own_word<int>(e, elastic::workspace(e).slots()) + peer, 0); });
}

}  // namespace directed_detail

struct Directed {
  static PRIM_FN void open(const Exchange& e, Phase phase) {
    if (has(e, kKeepEntryBarriers)) elastic::Symmetric::open(e, phase);
  }
  static PRIM_FN void close(const Exchange& e, Phase phase) {
    if (has(e, kAllRankExit)) {
      elastic::Symmetric::close(e, phase);
    } else if (sends(e, phase)) {
      elastic::drain();
      directed_detail::release_arrival(e, phase);
    } else {
      directed_detail::await_arrivals(e, phase);
    }
  }
  // The warp that awaits the peers speaks for its CTA.
  static PRIM_FN void trigger() {
    if (prim::warp() == 0) prim::launch_dependents();
  }
  // A sender's slots are free once every CTA is past close(): the grid sync says so, or the last CTA to get here does.
  static PRIM_FN void reset_slots(const Exchange& e) {
    if (!sends(e, elastic::kDispatch)) return;
    if (has(e, kAllRankExit) || has(e, kGridSyncExit)) {
      elastic::Symmetric::reset_slots(e);
      return;
    }
    if (prim::warp() != 0) return;
    auto* finished = elastic::own_word<int>(e, WorkspaceLayout::kFinishedCtas);
    const auto before = prim::lanes([&](int l) { return l == 0 ? prim::fetch_add_acq_rel_gpu(finished, 1) : 0; });
    if (prim::broadcast(before, 0) != prim::num_ctas() - 1) return;
    directed_detail::clear_slots(e);
    prim::elect([&] { prim::store(finished, 0); });
  }
  static PRIM_FN int count_copy(const Exchange& e) {
    if (!has(e, kUnionNotify)) return 0;
    return static_cast<int>(prim::load(elastic::own_word<std::uint64_t>(e, WorkspaceLayout::kCountRound)) & 1);
  }
  // Warp 0 of CTA 0, once all notify warps have read the round.
  static PRIM_FN void counts_done(const Exchange& e) {
    if (!has(e, kUnionNotify)) return;
    auto* round = elastic::own_word<std::uint64_t>(e, WorkspaceLayout::kCountRound);
    prim::elect([&] { prim::store(round, prim::load(round) + 1); });
  }
  static PRIM_FN RankRange count_receivers(const Exchange& e) {
    if (has(e, kUnionNotify)) return elastic::Symmetric::count_receivers(e);
    return is_ffn(e) ? RankRange{0, 0} : ffn_ranks(e);
  }
  static PRIM_FN RankRange count_senders(const Exchange& e) {
    if (has(e, kUnionNotify)) return elastic::Symmetric::count_senders(e);
    return is_ffn(e) ? attention_ranks(e) : RankRange{0, 0};
  }
};

}  // namespace afdep
