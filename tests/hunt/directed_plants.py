"""Bugs planted in what the role-directed protocol runs."""

from tests.hunt.plant import COLUMNS, COMBINE, COPY_EPILOGUE, DIRECTED, DISPATCH, NOTIFY, REDUCE_EPILOGUE, SYMMETRIC, Plant

PLANTS = (
    Plant(
        "the copy epilogue loads into a slot that a bulk store may still read",
        "staging",
        "afdep",
        (
            (
                COPY_EPILOGUE,
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=50,
        ends_in="AfdepError",
    ),
    Plant(
        "one sender's arrival is not awaited",
        "epoch",
        "afdep",
        (
            (
                DIRECTED,
                "guard(e), senders.last - senders.first,",
                "guard(e), senders.last - senders.first - (phase == elastic::kDispatch ? 1 : 0),",
            ),
        ),
        budget=100,
    ),
    Plant(
        "the arrival is released when the sources were read, not when the stores landed",
        "memory order",
        "afdep",
        ((SYMMETRIC, "  prim::bulk_wait();\n  prim::fence_proxy_async();", "  prim::bulk_wait_read();"),),
        budget=100,
    ),
    Plant(
        "a CTA's arrival is released before its other warps drained",
        "memory order",
        "afdep",
        (
            (
                DIRECTED,
                "    prim::sync_cta();\n  }\n  if (prim::warp() != 0) return;",
                "  }\n  if (prim::warp() != 0) return;",
            ),
        ),
        budget=100,
    ),
    Plant(
        "combine launches programmatically behind a copy epilogue that triggers at entry",
        "PDL",
        "afdep",
        (
            ("afdep/csrc/sim_world.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            (
                COPY_EPILOGUE,
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=20,
        ends_in="AfdepError",
    ),
    Plant(
        "dispatch launches programmatically behind a reduce epilogue that triggers at entry",
        "boundary",
        "afdep",
        (
            ("afdep/csrc/sim_world.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            (
                REDUCE_EPILOGUE,
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=500,
    ),
    Plant(
        "a record's metadata is sent without a proxy fence",
        "fence",
        "afdep",
        ((DISPATCH, "  prim::fence_proxy_async();\n  prim::sync_warp();\n", "  prim::sync_warp();\n"),),
        budget=20,
        ends_in="AfdepError",
    ),
    Plant(
        "a column's sum is stored without a proxy fence",
        "fence",
        "afdep",
        ((COLUMNS, "  prim::fence_proxy_async();\n  prim::sync_warp();\n", "  prim::sync_warp();\n"),),
        budget=20,
    ),
    Plant(
        "a column's sum overwrites a slot that is still being stored",
        "staging",
        "afdep",
        ((COLUMNS, "    if (at == first_byte) prim::bulk_wait();\n", ""),),
        budget=60,
    ),
    Plant(
        "the copy epilogue does not wait for the dispatch",
        "PDL",
        "afdep",
        ((COPY_EPILOGUE, "  prim::wait_for_predecessor();\n", ""),),
        budget=50,
        ends_in="AfdepError",
    ),
    Plant(
        "counts among ranks of one role have one copy only",
        "count",
        "afdep[AFDEP_UNION_NOTIFY=1]",
        ((DIRECTED, "    if (!has(e, kUnionNotify)) return 0;\n", "    return 0;\n"),),
        budget=60,
        ends_in="DeadlockError",
    ),
    Plant(
        "a receiver expects one arrival too many",
        "epoch",
        "afdep",
        (
            (
                DIRECTED,
                "round * static_cast<std::uint64_t>(arrivals_per_exchange(e));",
                "round * static_cast<std::uint64_t>(arrivals_per_exchange(e)) + 1;",
            ),
        ),
        budget=1,
        ends_in="DeadlockError",
    ),
    Plant(
        "slots are cleared by the last CTA but one",
        "staging",
        "afdep",
        ((DIRECTED, "!= prim::num_ctas() - 1) return;", "!= prim::num_ctas() - 2) return;"),),
        budget=100,
        ends_in="AfdepError",
    ),
    Plant(
        "the round of arrivals stays where it is",
        "epoch",
        "afdep",
        ((DIRECTED, "  prim::elect([&] { prim::store(rounds, round); });\n", ""),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "a count that was taken is not cleared",
        "count",
        "afdep",
        ((NOTIFY, "  prim::store(word, std::int64_t{0});\n  return static_cast", "  return static_cast"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "a count of zero looks like no count",
        "count",
        "afdep",
        ((NOTIFY, "return -count - 1;", "return count;"), (NOTIFY, "return -word - 1;", "return word;")),
        budget=20,
        ends_in="DeadlockError",
    ),
    Plant(
        "a sum is published before every CTA has added to it",
        "count",
        "afdep",
        ((NOTIFY, "seen >> 32 == prim::num_ctas();", "seen >> 32 != 0;"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "prefix sums start before every warp has taken its counts",
        "memory order",
        "afdep",
        (
            (
                NOTIFY,
                "  sync_notify();\n  if (prim::warp() == 0)\n    prefix_sum",
                "  if (prim::warp() == 0)\n    prefix_sum",
            ),
        ),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "the reduce epilogue overwrites a slot that is still being stored",
        "staging",
        "afdep",
        ((REDUCE_EPILOGUE, "[] { prim::bulk_wait(); });", "[] {});"),),
        budget=60,
        tokens=160,
    ),
    Plant(
        "the reduce epilogue, launched at a trigger, does not wait for the combine",
        "PDL",
        "afdep",
        (
            (
                COMBINE,
                "  Protocol::close(e, kCombine);",
                "  prim::launch_dependents();\n  Protocol::close(e, kCombine);",
            ),
            (REDUCE_EPILOGUE, "  prim::wait_for_predecessor();\n", ""),
        ),
        budget=50,
        ends_in="AfdepError",
    ),
)
