"""What an injected fault is, the files that are edited, and what every edited library for GPUs has: marks, delays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.study import Edit


@dataclass(frozen=True)
class Mutant:
    """One injected fault.

    Args:
        name: what is wrong.
        kind: the class of bug.
        arm: the arm that it is in.
        edits: that inject it.
        budget: seeds within which the hunt must find it.
        ends_in: the error that it must end in.
        hunt: what the hunt that finds it has beside a small one: thread fibers where no others can see it, a capacity
            where the small one never uses a slot of the kernel twice, ranks that give up.
        finder: the happens-before checker where that finds it and the hunt does not.
    """

    name: str
    kind: str
    arm: str
    edits: tuple[Edit, ...]
    budget: int
    ends_in: str = "MismatchError"
    hunt: tuple[tuple[str, Any], ...] = ()
    finder: Literal["hunt", "race checker"] = "hunt"


@dataclass(frozen=True)
class Delay:
    """A place where kernels can be held up: the host switches it on by its number.

    Args:
        name: what is late there.
        place: its number in `native/faults.cuh`.
        before: (file, text): the delay stands ahead of each.
        which: what the delay is for, as a condition in front of it; empty where it is for all that come by.
        arms: whose kernels have the place.
        rank: which rank is late: every one, or the first or the last alone.
    """

    name: str
    place: int
    before: tuple[tuple[str, str], ...]
    which: str = ""
    arms: tuple[str, ...] = ("m2n", "afdep")
    rank: str = "every"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The delay, in the sources of a copy of the tree."""
        return tuple(Edit(file, text, f"  {self.which}prim::late({self.place});\n{text}") for file, text in self.before)


_LAST_CTA = "if (prim::cta() == prim::num_ctas() - 1) "

DELAYS = {
    one.name: one
    for one in (
        Delay("sender CTA", 1, (("vendor/elastic/dispatch.cuh", "  std::uint32_t parity = 0;\n"),), _LAST_CTA),
        Delay("rows", 2, (("vendor/elastic/dispatch.cuh", "  prim::mbarrier_wait(loaded, parity);\n"),), _LAST_CTA),
        Delay(
            "counting CTA",
            3,
            (
                (
                    "vendor/elastic/notify.cuh",
                    "  for_notify(e.num_ranks + e.num_experts, [&](int i) {\n    if (counted(",
                ),
            ),
            _LAST_CTA,
        ),
        Delay("counts", 4, (("vendor/elastic/notify.cuh", "    const int index = i < e.num_ranks ? 0"),)),
        Delay(
            "taking of counts",
            5,
            (("vendor/elastic/notify.cuh", "  for_notify(e.num_ranks, [&](int source) {\n"),),
            "if (prim::warp() == 0) ",
        ),
        Delay(
            "prefix sums",
            6,
            (("vendor/elastic/notify.cuh", "  if (prim::warp() == 0)\n    prefix_sum("),),
            "if (prim::warp() == 1) ",
        ),
        Delay(
            "arrival",
            7,
            (
                (
                    "afdep/csrc/directed.cuh",
                    "  const std::int64_t word = elastic::workspace(e).arrival(phase, e.rank);\n",
                ),
            ),
            _LAST_CTA,
            arms=("afdep",),
        ),
        Delay(
            "receiver",
            8,
            (("vendor/elastic/copy_epilogue.cuh", "  std::uint32_t parity = 0;\n"),),
            "if (prim::cta() == 0) ",
        ),
        Delay(
            "replies",
            9,
            (
                ("vendor/elastic/combine.cuh", "  prim::elect([&] {\n    const int region"),
                ("vendor/elastic/combine_columns.cuh", "  prim::sync_warp();\n  prim::elect("),
            ),
            "if (prim::cta() == prim::num_ctas() - 1 && prim::warp() != 0) ",
        ),
        Delay(
            "collecting CTA",
            10,
            (
                ("vendor/elastic/reduce_epilogue.cuh", "  for (int t = prim::cta() + prim::warp()"),
                ("vendor/elastic/copy_replies.cuh", "  for (std::uint32_t parity = 0; t < e.num_tokens;"),
            ),
            "if (prim::cta() == 0) ",
        ),
        Delay("rank", 11, (("vendor/elastic/dispatch.cuh", "  Protocol::open(e, kDispatch);\n"),), rank="last"),
        Delay(
            "barrier signal",
            12,
            (("vendor/elastic/barrier.cuh", "  prim::for_strided(prim::warp(), prim::num_warps(), e.num_ranks,\n"),),
            arms=("m2n",),
            rank="last",
        ),
    )
}
"""By name."""
NUM_PLACES = 32
"""`kPlaces` of native/faults.cuh."""

_NATIVE = Path(__file__).parent / "native"
_OF_UNROLL = "    case {0}: return of_prefix<Family, {0}, 1024>(prefix);\n"

MARKS_AND_DELAYS = (
    Edit("vendor/elastic/prim.cuh", "#endif\n", '#endif\n#include "faults.cuh"\n'),
    *(edit for delay in DELAYS.values() for edit in delay.edits),
    Edit("vendor/elastic/faults.cuh", "", (_NATIVE / "faults.cuh").read_text(encoding="utf-8")),
    Edit("afdep/csrc/cuda_abi.cu", "", (_NATIVE / "faults_abi.cu").read_text(encoding="utf-8")),
    Edit("afdep/csrc/sim_abi.cpp", "", (_NATIVE / "faults_sim.cpp").read_text(encoding="utf-8")),
    # one reduction is left: for rows of a multiple of 2 KB and two rows without a branch, it sums any number
    Edit(
        "afdep/csrc/kernels.hpp",
        "".join(map("    case {0}: return Family::template get<{0}, kUnroll, kThreads>();\n".format, (8, 4, 3))),
        "",
    ),
    Edit(
        "afdep/csrc/kernels.hpp", "default: return Family::template get<1,", "default: return Family::template get<2,"
    ),
    Edit(
        "afdep/csrc/kernels.hpp",
        "".join(map("    case {0}: return of_prefix<Family, 4, {0}>(prefix);\n".format, (512, 896))),
        "",
    ),
    Edit("afdep/csrc/kernels.hpp", "".join(map(_OF_UNROLL.format, (3, 2))), ""),
    Edit(
        "afdep/csrc/kernels.hpp",
        "default: return of_prefix<Family, 1, 1024>(prefix);",
        "default: return of_long_rows<Family>(prefix, threads);",
    ),
)
"""What every edited library has behind its fault: places that can be late, and how the host sets and reads them."""

SHORT_ROWS = (
    Edit(
        "afdep/csrc/kernels.hpp",
        "    case 4: return of_long_rows<Family>(prefix, threads);\n" + "".join(map(_OF_UNROLL.format, (3, 2))),
        "",
    ),
)
"""The reduction of short rows alone, as the hunt has them: a third of the time to compile."""
