"""Guards that GPUs play without: plants of the hunt whose edits touch kernels alone, each with a mark in its place."""

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
    PRIM_MEMORY,
    REDUCE_EPILOGUE,
    SYMMETRIC,
    Edit,
    Plant,
)
from harness.faults.plants import ALL

_PLANTS = {plant.name: plant for plant in ALL}
_MARK = "prim::mark();\n"


@dataclass(frozen=True)
class Guard:
    """One guard that is taken away.

    Args:
        name: of the plant: what is wrong without it.
        slug: the name of its library.
        mark: (file, text): a mark stands ahead of that text, in the plant's sources.
        late: names of the delays that it is played with, one by one.
        late_rank: the rank that is late, where that is another than the delay has.
        layout: that it is played on.
        shape: changes of the shape of its exchanges.
        which: a condition in front of the mark, where the place is run for other things too.
        edits_on_gpus: instead of the plant's, where these name what only the simulator has.
        restarts: whether its kernels may leave their memory or never end: it is played after all others.
    """

    name: str
    slug: str
    mark: tuple[str, str]
    late: tuple[str, ...] = ()
    late_rank: str | None = None
    layout: str = "1A1F"
    shape: tuple[tuple[str, int], ...] = ()
    which: str = ""
    edits_on_gpus: tuple[Edit, ...] = ()
    restarts: bool = False

    @property
    def plant(self) -> Plant:
        """The same bug in the hunt."""
        return _PLANTS[self.name]

    @property
    def arm(self) -> str:
        return self.plant.arm

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The guard goes, and the mark stands in its place."""
        file, text = self.mark
        return (*(self.edits_on_gpus or self.plant.edits), (file, text, f"  {self.which}{_MARK}{text}"))


_SENDING = (DISPATCH, "  write_scales(e, token, record);\n")
_REPLYING = (COMBINE, "  prim::elect([&] {\n    const int region")
_COLUMN = (COLUMNS, "  prim::sync_warp();\n  prim::elect(")
_SIGNALLED = (BARRIER, "  prim::sync_cta();\n")
_ARRIVED = (DIRECTED, "  const char* name = phase ==")
_RELEASING = (DIRECTED, "  const RankRange receivers = phase == elastic::kDispatch ? ffn_ranks(e)")
_TAKEN = (NOTIFY, "  return decode(count);\n")

_FEW = (("tokens", 8),)
"""So few that some expert has no row."""
_MANY = (("tokens", 512), ("exchanges", 8))
"""So many that every warp of the transport sends or replies several times."""
_SINGLE = (("tokens", 512), ("top_k", 1), ("exchanges", 8))
"""Every token has one row, which is forwarded."""
_ALL_WARPS = (("tokens", 6144), ("top_k", 2), ("hidden", 1024), ("exchanges", 3))
"""More than an epilogue has warps on all SMs of the GPU."""

SYMMETRIC_GUARDS = (
    Guard("a slot is reused before the bulk store has read it", "send-slot", _SENDING, shape=_MANY, restarts=True),
    Guard(
        "the exit barrier is skipped",
        "exit-barrier",
        (SYMMETRIC, "    prim::sync_grid();\n    if (prim::cta() == 0 && phase == kCombine)"),
        ("rows",),
        which="if (phase == kDispatch) ",
    ),
    Guard(
        "a reduced row is stored without a proxy fence",
        "reply-fence",
        (COMBINE, "  prim::sync_warp();\n  prim::elect([&] {\n    const int region"),
    ),
    Guard("a barrier signal is a store instead of an addition", "signal-store", _SIGNALLED, ("rows",)),
    Guard("a lane's bulk store may run before the other lanes have written the row", "lane-order", _REPLYING),
    Guard("successive barriers share one signal word", "shared-signal", _SIGNALLED),
    Guard("a buffer parity that does not flip", "parity", _SENDING, shape=_MANY, restarts=True),
    Guard(
        "a forwarded row overwrites a slot that is still being stored",
        "forward-slot",
        (COMBINE, "  prim::mbarrier_wait(loaded, parity);\n"),
        shape=_SINGLE,
    ),
    Guard(
        "a reduced row overwrites a slot that is still being stored",
        "reduce-slot",
        (COMBINE, "  const bool single = count == 1;\n"),
        shape=_MANY,
    ),
    Guard("the all-rank barrier is polled without acquiring", "barrier-acquire", _SIGNALLED, ("rows",)),
)
DIRECTED_GUARDS = (
    Guard(
        "the copy epilogue loads into a slot that a bulk store may still read",
        "copy-slot",
        (COPY_EPILOGUE, "  const int first = e.rank * e.experts_per_rank;\n"),
        shape=_ALL_WARPS,
    ),
    Guard("one sender's arrival is not awaited", "one-arrival", _ARRIVED, ("rows",), "last", layout="2A2F"),
    Guard(
        "the arrival is released when the sources were read, not when the stores landed",
        "landed",
        (SYMMETRIC, "  prim::bulk_wait_read();"),
        shape=_MANY,
    ),
    Guard("a CTA's arrival is released before its other warps drained", "drained", _RELEASING, ("rows", "replies")),
    Guard(
        "arrivals are added without releasing",
        "release",
        _RELEASING,
        ("rows",),
        edits_on_gpus=((PRIM_MEMORY, "red.release.sys.global.add.u64", "red.relaxed.sys.global.add.u64"),),
    ),
    Guard(
        "a record's metadata is sent without a proxy fence",
        "send-fence",
        (DISPATCH, "  prim::sync_warp();\n  const auto owner"),
        restarts=True,
    ),
    Guard("a column's sum is stored without a proxy fence", "column-fence", _COLUMN),
    Guard("a column's sum overwrites a slot that is still being stored", "column-slot", _COLUMN, shape=_MANY),
    Guard(
        "the copy epilogue does not wait for the dispatch",
        "copy-wait",
        (COPY_EPILOGUE, "  std::uint32_t parity = 0;\n"),
        ("prefix sums", "rows"),
        restarts=True,
    ),
    Guard(
        "the only replies are copied without waiting for the combine",
        "replies-wait",
        (COPY_REPLIES, "  for (std::uint32_t parity = 0; t < e.num_tokens;"),
        ("replies",),
    ),
    Guard(
        "counts among ranks of one role have one copy only",
        "count-copy",
        (DIRECTED, "    return 0;\n"),
        ("taking of counts",),
        "first",
        layout="2A2F",
    ),
    Guard("a receiver expects one arrival too many", "too-many", _ARRIVED),
    Guard(
        "slots are cleared by the last CTA but one",
        "clear-slots",
        (DIRECTED, "  directed_detail::clear_slots(e);\n"),
        ("sender CTA",),
    ),
    Guard("the round of arrivals stays where it is", "round", _ARRIVED, ("rows",)),
    Guard("a count that was taken is not cleared", "count-clear", _TAKEN, restarts=True),
    Guard("a count of zero looks like no count", "zero-count", _TAKEN, shape=_FEW),
    Guard(
        "a sum is published before every CTA has added to it",
        "partial-sum",
        (NOTIFY, "    const std::int64_t count = complete(sum)"),
        ("counting CTA",),
        restarts=True,
    ),
    Guard(
        "prefix sums start before every warp has taken its counts",
        "prefix-order",
        (NOTIFY, "  if (prim::warp() == 0)\n    prefix_sum("),
        ("taking of counts",),
        restarts=True,
    ),
    Guard(
        "the reduce epilogue overwrites a slot that is still being stored",
        "collect-slot",
        (REDUCE_EPILOGUE, "  const int count = compact(region, list);\n"),
        layout="2A2F",
        shape=_ALL_WARPS,
    ),
    Guard(
        "the reduce epilogue, launched at a trigger, does not wait for the combine",
        "collect-wait",
        (REDUCE_EPILOGUE, "  const int tokens = num_tokens(e);\n"),
        ("replies",),
        layout="2A2F",
    ),
)
GUARDS = (*SYMMETRIC_GUARDS, *DIRECTED_GUARDS)
