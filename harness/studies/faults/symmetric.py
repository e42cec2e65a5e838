"""Faults injected into the symmetric kernels, into what Buffers must not share, and into how a rank gives up."""

from harness.studies.faults.mutants import Mutant
from harness.study import Edit

SYMMETRIC_MUTANTS = (
    Mutant(
        "a slot is reused before the bulk store has read it",
        "staging",
        "m2n",
        (
            Edit(
                "vendor/elastic/dispatch.cuh",
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=100,
    ),
    Mutant(
        "the exit barrier is skipped",
        "boundary",
        "m2n",
        (
            Edit(
                "vendor/elastic/symmetric.cuh",
                "    prim::sync_grid();\n    if (prim::cta() == 0) barrier_all_ranks(",
                "    prim::sync_grid();\n    if (prim::cta() == 0 && phase == kCombine) barrier_all_ranks(",
            ),
        ),
        budget=100,
    ),
    Mutant(
        "a reduced row is stored without a proxy fence",
        "fence",
        "m2n",
        (
            Edit(
                "vendor/elastic/combine.cuh",
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n  prim::elect",
                "  prim::sync_warp();\n  prim::elect",
            ),
        ),
        budget=20,
    ),
    Mutant(
        "a barrier signal is a store instead of an addition",
        "epoch",
        "m2n",
        (
            Edit(
                "vendor/elastic/barrier.cuh",
                "prim::add_release_sys(peer_word<int>(e, peer, signal), up ? 1 : -1)",
                "prim::store_relaxed_sys(peer_word<int>(e, peer, signal), up ? e.num_ranks : 0)",
            ),
        ),
        budget=100,
        ends_in="AfdepError",
    ),
    Mutant(
        "a lane's bulk store may run before the other lanes have written the row",
        "memory order",
        "m2n",
        (
            Edit(
                "vendor/elastic/combine.cuh",
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n  prim::elect([&] {\n    const int region",
                "  prim::fence_proxy_async();\n  prim::elect([&] {\n    const int region",
            ),
        ),
        budget=20,
        hunt=(("fiber", "thread"),),
    ),
    Mutant(
        "successive barriers share one signal word",
        "epoch",
        "m2n",
        (Edit("vendor/elastic/barrier.cuh", " + static_cast<std::int64_t>(now & 1) * 4;", ";"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a buffer parity that does not flip",
        "epoch",
        "m2n",
        (
            Edit(
                "vendor/elastic/dispatch.cuh",
                "t += prim::num_ctas() * warps, parity ^= 1)",
                "t += prim::num_ctas() * warps)",
            ),
        ),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a forwarded row overwrites a slot that is still being stored",
        "staging",
        "m2n",
        (
            Edit(
                "vendor/elastic/combine.cuh",
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=60,
    ),
    Mutant(
        "a reduced row overwrites a slot that is still being stored",
        "staging",
        "m2n",
        (Edit("vendor/elastic/combine.cuh", "[] { prim::bulk_wait(); });", "[] {});"),),
        budget=60,
    ),
    Mutant(
        "the all-rank barrier is polled without acquiring",
        "memory order",
        "m2n",
        (Edit("vendor/elastic/barrier.cuh", "prim::wait_until(", "prim::wait_value("),),
        budget=2,
        finder="race checker",
    ),
)

_POISONED = "  if (prim::broadcast(ended, 0) != 0) poison_collected(e);\n"
SHIPPED = "  fill_exchange(r.exchange, shape_, shapes_, rank, take);\n"


def shared(member: str) -> str:
    """What the first Buffer of a rank keeps there is what the others use as well."""
    return f"""{SHIPPED}  static int* kept[elastic::kMaxRanks];
  if (number_ == 0) kept[rank] = r.exchange.{member};
  r.exchange.{member} = kept[rank];
"""


BUFFER_MUTANTS = (
    Mutant(
        "the Buffers of a rank allocate rows from one cursor",
        "sharing",
        "afdep",
        (Edit("afdep/csrc/sim_buffers.cpp", SHIPPED, shared("expert_cursor")),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "the Buffers of a rank keep one way back for their rows",
        "sharing",
        "m2n",
        (Edit("afdep/csrc/sim_buffers.cpp", SHIPPED, shared("source_metadata")),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a rank that was told releases without telling",
        "abort",
        "afdep",
        (
            Edit(
                "vendor/elastic/exchange.cuh",
                "  prim::elect([&] { prim::pass_on_abort(e.guard); });\n  return {0",
                "  return {0",
            ),
        ),
        budget=100,
        hunt=(("aborts", 1.0),),
    ),
    Mutant(
        "a rank that gives up tells nobody",
        "abort",
        "afdep",
        (Edit("vendor/elastic/failure.cuh", "  prim::pass_on_abort(e.guard);\n}", "}"),),
        budget=20,
        ends_in="AfdepError",
        hunt=(("aborts", 1.0),),
    ),
    Mutant(
        "rows of an exchange that was given up are received",
        "abort",
        "afdep",
        (
            Edit(
                "vendor/elastic/exchange.cuh",
                "  if (prim::broadcast(ended, 1) == 0) return",
                "  if (prim::broadcast(ended, 1) < 2) return",
            ),
        ),
        budget=100,
        ends_in="AfdepError",
        hunt=(("aborts", 1.0),),
    ),
    Mutant(
        "replies of an exchange that was given up are collected",
        "abort",
        "afdep",
        (
            Edit("vendor/elastic/reduce_epilogue.cuh", _POISONED, ""),
            Edit("vendor/elastic/copy_replies.cuh", _POISONED, ""),
        ),
        budget=20,
        hunt=(("aborts", 1.0),),
    ),
)
