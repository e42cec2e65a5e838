"""Bugs planted in the kernels of the symmetric protocol."""

from harness.faults.plant import BARRIER, COMBINE, DISPATCH, SYMMETRIC, Plant

PLANTS = (
    Plant(
        "a slot is reused before the bulk store has read it",
        "staging",
        "m2n",
        (
            (
                DISPATCH,
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=100,
    ),
    Plant(
        "the exit barrier is skipped",
        "boundary",
        "m2n",
        (
            (
                SYMMETRIC,
                "    prim::sync_grid();\n    if (prim::cta() == 0) barrier_all_ranks(",
                "    prim::sync_grid();\n    if (prim::cta() == 0 && phase == kCombine) barrier_all_ranks(",
            ),
        ),
        budget=100,
    ),
    Plant(
        "a reduced row is stored without a proxy fence",
        "fence",
        "m2n",
        (
            (
                COMBINE,
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n  prim::elect",
                "  prim::sync_warp();\n  prim::elect",
            ),
        ),
        budget=20,
    ),
    Plant(
        "a barrier signal is a store instead of an addition",
        "epoch",
        "m2n",
        (
            (
                BARRIER,
                "prim::add_release_sys(peer_word<int>(e, peer, signal), up ? 1 : -1)",
                "prim::store_relaxed_sys(peer_word<int>(e, peer, signal), up ? e.num_ranks : 0)",
            ),
        ),
        budget=100,
        ends_in="AfdepError",
    ),
    Plant(
        "a lane's bulk store may run before the other lanes have written the row",
        "memory order",
        "m2n",
        (
            (
                COMBINE,
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n  prim::elect([&] {\n    const int region",
                "  prim::fence_proxy_async();\n  prim::elect([&] {\n    const int region",
            ),
        ),
        budget=20,
        fiber="thread",
    ),
    Plant(
        "successive barriers share one signal word",
        "epoch",
        "m2n",
        ((BARRIER, " + static_cast<std::int64_t>(now & 1) * 4;", ";"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "a buffer parity that does not flip",
        "epoch",
        "m2n",
        ((DISPATCH, "t += prim::num_ctas() * warps, parity ^= 1)", "t += prim::num_ctas() * warps)"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "a forwarded row overwrites a slot that is still being stored",
        "staging",
        "m2n",
        (
            (
                COMBINE,
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=60,
    ),
    Plant(
        "a reduced row overwrites a slot that is still being stored",
        "staging",
        "m2n",
        ((COMBINE, "[] { prim::bulk_wait(); });", "[] {});"),),
        budget=60,
    ),
)
