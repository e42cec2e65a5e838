"""Faults injected into what the role-directed protocol runs."""

from harness.studies.faults.mutants import Mutant
from harness.study import Edit

DIRECTED_MUTANTS = (
    Mutant(
        "the copy epilogue loads into a slot that a bulk store may still read",
        "staging",
        "afdep",
        (
            Edit(
                "vendor/elastic/copy_epilogue.cuh",
                "  prim::bulk_wait();\n  prim::elect([&] {\n    prim::mbarrier_expect",
                "  prim::elect([&] {\n    prim::mbarrier_expect",
            ),
        ),
        budget=50,
        ends_in="AfdepError",
    ),
    Mutant(
        "one sender's arrival is not awaited",
        "epoch",
        "afdep",
        (
            Edit(
                "afdep/csrc/directed.cuh",
                "senders.last - senders.first,",
                "senders.last - senders.first - (phase == elastic::kDispatch ? 1 : 0),",
            ),
        ),
        budget=100,
    ),
    Mutant(
        "the arrival is released when the sources were read, not when the stores landed",
        "memory order",
        "afdep",
        (
            Edit(
                "vendor/elastic/symmetric.cuh",
                "  prim::bulk_wait();\n  prim::fence_proxy_async();",
                "  prim::bulk_wait_read();",
            ),
        ),
        budget=100,
    ),
    Mutant(
        "a CTA's arrival is released before its other warps drained",
        "memory order",
        "afdep",
        (
            Edit(
                "afdep/csrc/directed.cuh",
                "    prim::sync_cta();\n  }\n  if (prim::warp() != 0) return;",
                "  }\n  if (prim::warp() != 0) return;",
            ),
        ),
        budget=100,
    ),
    Mutant(
        "combine launches programmatically behind a copy epilogue that triggers at entry",
        "PDL",
        "afdep",
        (
            Edit("afdep/csrc/sim_buffers.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            Edit(
                "vendor/elastic/copy_epilogue.cuh",
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=20,
        ends_in="AfdepError",
    ),
    Mutant(
        "dispatch launches programmatically behind a reduce epilogue that triggers at entry",
        "boundary",
        "afdep",
        (
            Edit("afdep/csrc/sim_buffers.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            Edit(
                "vendor/elastic/reduce_epilogue.cuh",
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
            Edit(
                "vendor/elastic/copy_replies.cuh",
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=500,
    ),
    Mutant(
        "a record's metadata is sent without a proxy fence",
        "fence",
        "afdep",
        (
            Edit(
                "vendor/elastic/dispatch.cuh",
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n",
                "  prim::sync_warp();\n",
            ),
        ),
        budget=20,
        ends_in="AfdepError",
    ),
    Mutant(
        "a column's sum is stored without a proxy fence",
        "fence",
        "afdep",
        (
            Edit(
                "vendor/elastic/combine_columns.cuh",
                "  prim::fence_proxy_async();\n  prim::sync_warp();\n",
                "  prim::sync_warp();\n",
            ),
        ),
        budget=20,
    ),
    Mutant(
        "a column's sum overwrites a slot that is still being stored",
        "staging",
        "afdep",
        (Edit("vendor/elastic/combine_columns.cuh", "    if (at == first_byte) prim::bulk_wait_read();\n", ""),),
        budget=60,
    ),
    Mutant(
        "the copy epilogue does not wait for the dispatch",
        "PDL",
        "afdep",
        (Edit("vendor/elastic/copy_epilogue.cuh", "  prim::wait_for_predecessor();\n", ""),),
        budget=50,
        ends_in="AfdepError",
    ),
    Mutant(
        "the only replies are copied without waiting for the combine",
        "PDL",
        "afdep",
        (Edit("vendor/elastic/copy_replies.cuh", "  prim::wait_for_predecessor();\n", ""),),
        budget=50,
        ends_in="AfdepError",
    ),
    Mutant(
        "counts among ranks of one role have one copy only",
        "count",
        "afdep[AFDEP_UNION_NOTIFY=1]",
        (Edit("afdep/csrc/directed.cuh", "    if (!has(e, kUnionNotify)) return 0;\n", "    return 0;\n"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a receiver expects one arrival too many",
        "epoch",
        "afdep",
        (
            Edit(
                "afdep/csrc/directed.cuh",
                "round * static_cast<std::uint64_t>(arrivals_per_exchange(e));",
                "round * static_cast<std::uint64_t>(arrivals_per_exchange(e)) + 1;",
            ),
        ),
        budget=1,
        ends_in="DeadlockError",
    ),
    Mutant(
        "slots are cleared by the last CTA but one",
        "staging",
        "afdep",
        (Edit("afdep/csrc/directed.cuh", "!= prim::num_ctas() - 1) return;", "!= prim::num_ctas() - 2) return;"),),
        budget=100,
        ends_in="AfdepError",
    ),
    Mutant(
        "the round of arrivals stays where it is",
        "epoch",
        "afdep",
        (Edit("afdep/csrc/directed.cuh", "  prim::elect([&] { prim::store(rounds, round); });\n", ""),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a count that was taken is not cleared",
        "count",
        "afdep",
        (
            Edit(
                "vendor/elastic/notify.cuh", "  prim::store(word, std::int64_t{0});\n  return decode", "  return decode"
            ),
        ),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "a count of zero looks like no count",
        "count",
        "afdep",
        (
            Edit("vendor/elastic/notify.cuh", "return -count - 1;", "return count;"),
            Edit("vendor/elastic/notify.cuh", "return -word - 1;", "return word;"),
        ),
        budget=20,
        ends_in="DeadlockError",
    ),
    Mutant(
        "a sum is published before every CTA has added to it",
        "count",
        "afdep",
        (Edit("vendor/elastic/notify.cuh", "seen >> 32 == prim::num_ctas();", "seen >> 32 != 0;"),),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "prefix sums start before every warp has taken its counts",
        "memory order",
        "afdep",
        (
            Edit(
                "vendor/elastic/notify.cuh",
                "  sync_notify();\n  if (prim::warp() == 0)\n    prefix_sum",
                "  if (prim::warp() == 0)\n    prefix_sum",
            ),
        ),
        budget=60,
        ends_in="AfdepError",
    ),
    Mutant(
        "the reduce epilogue overwrites a slot that is still being stored",
        "staging",
        "afdep",
        (Edit("vendor/elastic/reduce_epilogue.cuh", "[] { prim::bulk_wait(); });", "[] {});"),),
        budget=60,
        hunt=(("capacity", 160), ("most_tokens", 160)),
    ),
    Mutant(
        "the reduce epilogue, launched at a trigger, does not wait for the combine",
        "PDL",
        "afdep",
        (
            Edit(
                "vendor/elastic/combine.cuh",
                "  Protocol::close(e, kCombine);",
                "  prim::launch_dependents();\n  Protocol::close(e, kCombine);",
            ),
            Edit("vendor/elastic/reduce_epilogue.cuh", "  prim::wait_for_predecessor();\n", ""),
        ),
        budget=50,
        ends_in="AfdepError",
    ),
    Mutant(
        "arrivals are added without releasing",
        "memory order",
        "afdep",
        (
            Edit(
                "afdep/csrc/directed.cuh",
                "add_release_sys(elastic::peer_word<std::uint64_t>(e, receivers.first + i, word), std::uint64_t{1});",
                "detail::send(elastic::peer_word<std::uint64_t>(e, receivers.first + i, word).address(),"
                " std::uint64_t{1}, prim::detail::land_add<std::uint64_t>);",
            ),
        ),
        budget=2,
        finder="race checker",
    ),
)
