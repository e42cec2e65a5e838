"""Protocol bugs planted in a copy of the tree: what the hunt must find."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from afdep.build import Fiber, build
from afdep.digest import TREE

DIRECTED = "afdep/csrc/directed.cuh"
SYMMETRIC = "vendor/elastic/symmetric.cuh"
DISPATCH = "vendor/elastic/dispatch.cuh"
COMBINE = "vendor/elastic/combine.cuh"
NOTIFY = "vendor/elastic/notify.cuh"


@dataclass(frozen=True)
class Plant:
    """One bug.

    Args:
        name: what is wrong.
        arm: the arm it is in.
        edits: (file, text as shipped, text with the bug).
        budget: seeds within which the hunt must find it.
        ends_in: the error it must end in.
        fiber: "thread" where only thread fibers can see it.
    """

    name: str
    arm: str
    edits: tuple[tuple[str, str, str], ...]
    budget: int
    ends_in: str = "MismatchError"
    fiber: Fiber = "warp"

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


PLANTS = (
    Plant(
        "one sender's arrival is not awaited",
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
        "afdep",
        ((SYMMETRIC, "  prim::bulk_wait();\n  prim::fence_proxy_async();", "  prim::bulk_wait_read();"),),
        budget=100,
    ),
    Plant(
        "a CTA's arrival is released before its other warps drained",
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
        "a slot is reused before the bulk store has read it",
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
        "m2n",
        (
            (
                SYMMETRIC,
                "    prim::sync_grid();\n    if (prim::cta() == 0) barrier_all_ranks(e, phase",
                "    prim::sync_grid();\n    if (prim::cta() == 0 && phase == kCombine) barrier_all_ranks(e, phase",
            ),
        ),
        budget=100,
    ),
    Plant(
        "combine launches programmatically behind a copy epilogue that triggers at entry",
        "afdep",
        (
            ("afdep/csrc/sim_world.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            (
                "vendor/elastic/copy_epilogue.cuh",
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=20,
        ends_in="AfdepError",
    ),
    Plant(
        "dispatch launches programmatically behind a reduce epilogue that triggers at entry",
        "afdep",
        (
            ("afdep/csrc/sim_world.cpp", "launch.programmatic = !main_kernel;", "launch.programmatic = true;"),
            (
                "vendor/elastic/reduce_epilogue.cuh",
                "  prim::wait_for_predecessor();",
                "  prim::launch_dependents();\n  prim::wait_for_predecessor();",
            ),
        ),
        budget=500,
    ),
    Plant(
        "a reduced row is stored without a proxy fence",
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
        "a record's metadata is sent without a proxy fence",
        "afdep",
        ((DISPATCH, "  prim::fence_proxy_async();\n  prim::sync_warp();\n", "  prim::sync_warp();\n"),),
        budget=20,
        ends_in="AfdepError",
    ),
    Plant(
        "the copy epilogue does not wait for the dispatch",
        "afdep",
        (("vendor/elastic/copy_epilogue.cuh", "  prim::wait_for_predecessor();\n", ""),),
        budget=50,
        ends_in="AfdepError",
    ),
    Plant(
        "a barrier signal is a store instead of an addition",
        "m2n",
        (
            (
                "vendor/elastic/barrier.cuh",
                "prim::add_release_sys(peer_word<int>(e, peer, signal), up ? 1 : -1)",
                "prim::store_relaxed_sys(peer_word<int>(e, peer, signal), up ? e.num_ranks : 0)",
            ),
        ),
        budget=100,
        ends_in="AfdepError",
    ),
    Plant(
        "counts among ranks of one role have one copy only",
        "afdep[AFDEP_UNION_NOTIFY=1]",
        ((DIRECTED, "    if (!has(e, kUnionNotify)) return 0;\n", "    return 0;\n"),),
        budget=60,
        ends_in="DeadlockError",
    ),
    Plant(
        "a receiver expects one arrival too many",
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
        "afdep",
        ((DIRECTED, "!= prim::num_ctas() - 1) return;", "!= prim::num_ctas() - 2) return;"),),
        budget=100,
        ends_in="AfdepError",
    ),
    Plant(
        "a lane's bulk store may run before the other lanes have written the row",
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
)


def build_with(plant: Plant, folder: Path) -> Path:
    """The native library of a copy of the tree with the bug in it.

    Raises:
        AssertionError: the shipped text is not there exactly once.
    """
    tree = folder / "tree"
    for part in ("vendor", "afdep"):
        shutil.copytree(TREE / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file, shipped, planted in plant.edits:
        text = (tree / file).read_text(encoding="utf-8")
        assert text.count(shipped) == 1, f"{plant.name}: expected the shipped text once in {file}"
        (tree / file).write_text(text.replace(shipped, planted), encoding="utf-8")
    return build(plant.fiber, tree=tree, flags=("-O1",))
