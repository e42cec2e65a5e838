"""Places of the kernels where a planted tree can be late: each is switched on by the host, by its number."""

from dataclasses import dataclass

from harness.faults.plant import (
    BARRIER,
    COLUMNS,
    COMBINE,
    COPY_EPILOGUE,
    COPY_REPLIES,
    DIRECTED,
    DISPATCH,
    NOTIFY,
    REDUCE_EPILOGUE,
    Edit,
)

_LAST_CTA = "if (prim::cta() == prim::num_ctas() - 1) "


@dataclass(frozen=True)
class Late:
    """One place.

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
        return tuple((file, text, f"  {self.which}prim::late({self.place});\n{text}") for file, text in self.before)


LATES = (
    Late("sender CTA", 1, ((DISPATCH, "  std::uint32_t parity = 0;\n"),), _LAST_CTA),
    Late("rows", 2, ((DISPATCH, "  prim::mbarrier_wait(loaded, parity);\n"),), _LAST_CTA),
    Late(
        "counting CTA",
        3,
        ((NOTIFY, "  for_notify(e.num_ranks + e.num_experts, [&](int i) {\n    if (counted("),),
        _LAST_CTA,
    ),
    Late("counts", 4, ((NOTIFY, "    const int index = i < e.num_ranks ? 0"),)),
    Late(
        "taking of counts", 5, ((NOTIFY, "  for_notify(e.num_ranks, [&](int source) {\n"),), "if (prim::warp() == 0) "
    ),
    Late("prefix sums", 6, ((NOTIFY, "  if (prim::warp() == 0)\n    prefix_sum("),), "if (prim::warp() == 1) "),
    Late(
        "arrival",
        7,
        ((DIRECTED, "  const std::int64_t word = elastic::workspace(e).arrival(phase, e.rank);\n"),),
        _LAST_CTA,
        arms=("afdep",),
    ),
    Late("receiver", 8, ((COPY_EPILOGUE, "  std::uint32_t parity = 0;\n"),), "if (prim::cta() == 0) "),
    Late(
        "replies",
        9,
        (
            (COMBINE, "  prim::elect([&] {\n    const int region"),
            (COLUMNS, "  prim::sync_warp();\n  prim::elect("),
        ),
        "if (prim::cta() == prim::num_ctas() - 1 && prim::warp() != 0) ",
    ),
    Late(
        "collecting CTA",
        10,
        (
            (REDUCE_EPILOGUE, "  for (int t = prim::cta() + prim::warp()"),
            (COPY_REPLIES, "  for (std::uint32_t parity = 0; t < e.num_tokens;"),
        ),
        "if (prim::cta() == 0) ",
    ),
    Late("rank", 11, ((DISPATCH, "  Protocol::open(e, kDispatch);\n"),), rank="last"),
    Late(
        "barrier signal",
        12,
        ((BARRIER, "  prim::for_strided(prim::warp(), prim::num_warps(), e.num_ranks,\n"),),
        arms=("m2n",),
        rank="last",
    ),
)

BY_NAME = {late.name: late for late in LATES}
