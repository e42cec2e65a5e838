"""What is run: injected faults, those of them that GPUs run too with a mark in their place, and the trials of both."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.ranks.cells import Shape
from harness.studies.faults.directed import DIRECTED_MUTANTS
from harness.studies.faults.mutants import DELAYS, Delay, Mutant
from harness.studies.faults.symmetric import BUFFER_MUTANTS, SYMMETRIC_MUTANTS
from harness.study import Batch, Edit

MUTANTS = {one.name: one for one in (*SYMMETRIC_MUTANTS, *DIRECTED_MUTANTS, *BUFFER_MUTANTS)}
"""By name."""

ARMS = ("m2n", "afdep")
EXACT, CAUGHT = "exact", "caught"
NOTHING, AS_SHIPPED = "nothing is taken away", "as shipped"
FAULT_PLACE = 0
"""`kFaultPlace` of native/faults.cuh: where a fault is."""


@dataclass(frozen=True)
class OnGpus:
    """How an injected fault runs on GPUs.

    Args:
        name: of the mutant.
        mark: (file, text): a mark stands ahead of that text, in the mutant's sources.
        late: names of the delays that it runs with, one by one.
        late_rank: the rank that is late, where that is another than the delay has.
        layout: that it runs on.
        shape: changes of the shape of its exchanges.
        which: a condition in front of the mark, where the place is run for other things too.
        edits: instead of the mutant's, where these name what only the simulator has.
        restarts: whether its kernels may leave their memory or never end: it runs behind all others.
    """

    name: str
    mark: tuple[str, str]
    late: tuple[str, ...] = ()
    late_rank: str | None = None
    layout: str = "1A1F"
    shape: tuple[tuple[str, int], ...] = ()
    which: str = ""
    edits: tuple[Edit, ...] = ()
    restarts: bool = False

    @property
    def mutant(self) -> Mutant:
        """The same fault in the hunt."""
        return MUTANTS[self.name]

    @property
    def injected(self) -> tuple[Edit, ...]:
        """The fault, and the mark where it is."""
        file, text = self.mark
        return (*(self.edits or self.mutant.edits), Edit(file, text, f"  {self.which}prim::mark();\n{text}"))


_SENDING = ("vendor/elastic/dispatch.cuh", "  write_scales(e, token, record);\n")
_COLUMN = ("vendor/elastic/combine_columns.cuh", "  prim::sync_warp();\n  prim::elect(")
_SIGNALLED = ("vendor/elastic/barrier.cuh", "  prim::sync_cta();\n")
_ARRIVED = ("afdep/csrc/directed.cuh", "  const char* name = phase ==")
_RELEASING = ("afdep/csrc/directed.cuh", "  const RankRange receivers = phase == elastic::kDispatch ? ffn_ranks(e)")
_TAKEN = ("vendor/elastic/notify.cuh", "  return decode(count);\n")

_MANY = (("tokens", 512), ("exchanges", 8))
"""So many that every warp of the transport sends or replies several times."""
_ALL_WARPS = (("tokens", 6144), ("top_k", 2), ("hidden", 1024), ("exchanges", 3))
"""More than an epilogue has warps on all SMs of the GPU."""

ON_GPUS = {
    one.name: one
    for one in (
        OnGpus("a slot is reused before the bulk store has read it", _SENDING, shape=_MANY, restarts=True),
        OnGpus(
            "the exit barrier is skipped",
            ("vendor/elastic/symmetric.cuh", "    prim::sync_grid();\n    if (prim::cta() == 0 && phase == kCombine)"),
            ("rows",),
            which="if (phase == kDispatch) ",
        ),
        OnGpus(
            "a reduced row is stored without a proxy fence",
            ("vendor/elastic/combine.cuh", "  prim::sync_warp();\n  prim::elect([&] {\n    const int region"),
        ),
        OnGpus("a barrier signal is a store instead of an addition", _SIGNALLED, ("rows",)),
        OnGpus(
            "a lane's bulk store may run before the other lanes have written the row",
            ("vendor/elastic/combine.cuh", "  prim::elect([&] {\n    const int region"),
        ),
        OnGpus("successive barriers share one signal word", _SIGNALLED),
        OnGpus("a buffer parity that does not flip", _SENDING, shape=_MANY, restarts=True),
        OnGpus(
            "a forwarded row overwrites a slot that is still being stored",
            ("vendor/elastic/combine.cuh", "  prim::mbarrier_wait(loaded, parity);\n"),
            shape=(("tokens", 512), ("top_k", 1), ("exchanges", 8)),
        ),
        OnGpus(
            "a reduced row overwrites a slot that is still being stored",
            ("vendor/elastic/combine.cuh", "  const bool single = count == 1;\n"),
            shape=_MANY,
        ),
        OnGpus("the all-rank barrier is polled without acquiring", _SIGNALLED, ("rows",)),
        OnGpus(
            "the copy epilogue loads into a slot that a bulk store may still read",
            ("vendor/elastic/copy_epilogue.cuh", "  const int first = e.rank * e.experts_per_rank;\n"),
            shape=_ALL_WARPS,
        ),
        OnGpus("one sender's arrival is not awaited", _ARRIVED, ("rows",), "last", layout="2A2F"),
        OnGpus(
            "the arrival is released when the sources were read, not when the stores landed",
            ("vendor/elastic/symmetric.cuh", "  prim::bulk_wait_read();"),
            shape=_MANY,
        ),
        OnGpus("a CTA's arrival is released before its other warps drained", _RELEASING, ("rows", "replies")),
        OnGpus(
            "arrivals are added without releasing",
            _RELEASING,
            ("rows",),
            edits=(
                Edit(
                    "vendor/elastic/prim_cuda_memory.cuh",
                    "red.release.sys.global.add.u64",
                    "red.relaxed.sys.global.add.u64",
                ),
            ),
        ),
        OnGpus(
            "a record's metadata is sent without a proxy fence",
            ("vendor/elastic/dispatch.cuh", "  prim::sync_warp();\n  const auto owner"),
            restarts=True,
        ),
        OnGpus("a column's sum is stored without a proxy fence", _COLUMN),
        OnGpus("a column's sum overwrites a slot that is still being stored", _COLUMN, shape=_MANY),
        OnGpus(
            "the copy epilogue does not wait for the dispatch",
            ("vendor/elastic/copy_epilogue.cuh", "  std::uint32_t parity = 0;\n"),
            ("prefix sums", "rows"),
            restarts=True,
        ),
        OnGpus(
            "the only replies are copied without waiting for the combine",
            ("vendor/elastic/copy_replies.cuh", "  for (std::uint32_t parity = 0; t < e.num_tokens;"),
            ("replies",),
        ),
        OnGpus(
            "counts among ranks of one role have one copy only",
            ("afdep/csrc/directed.cuh", "    return 0;\n"),
            ("taking of counts",),
            "first",
            layout="2A2F",
        ),
        OnGpus("a receiver expects one arrival too many", _ARRIVED),
        OnGpus(
            "slots are cleared by the last CTA but one",
            ("afdep/csrc/directed.cuh", "  directed_detail::clear_slots(e);\n"),
            ("sender CTA",),
        ),
        OnGpus("the round of arrivals stays where it is", _ARRIVED, ("rows",)),
        OnGpus("a count that was taken is not cleared", _TAKEN, restarts=True),
        OnGpus("a count of zero looks like no count", _TAKEN, shape=(("tokens", 8),)),  # some expert has no row
        OnGpus(
            "a sum is published before every CTA has added to it",
            ("vendor/elastic/notify.cuh", "    const std::int64_t count = complete(sum)"),
            ("counting CTA",),
            restarts=True,
        ),
        OnGpus(
            "prefix sums start before every warp has taken its counts",
            ("vendor/elastic/notify.cuh", "  if (prim::warp() == 0)\n    prefix_sum("),
            ("taking of counts",),
            restarts=True,
        ),
        OnGpus(
            "the reduce epilogue overwrites a slot that is still being stored",
            ("vendor/elastic/reduce_epilogue.cuh", "  const int count = compact(region, list);\n"),
            layout="2A2F",
            shape=_ALL_WARPS,
        ),
        OnGpus(
            "the reduce epilogue, launched at a trigger, does not wait for the combine",
            ("vendor/elastic/reduce_epilogue.cuh", "  const int tokens = num_tokens(e);\n"),
            ("replies",),
            layout="2A2F",
        ),
    )
}
"""By name."""


@dataclass(frozen=True)
class Trial:
    """One library, under one delay or none.

    Args:
        control: what is wrong, or that nothing is.
        arm: canonical name.
        layout: that it runs on; None: it is hunted on the simulator.
        late: what is late, or None.
    """

    control: str
    arm: str
    layout: str | None = None
    late: str | None = None

    @property
    def fault(self) -> OnGpus | None:
        return ON_GPUS.get(self.control)

    @property
    def expects(self) -> str:
        return CAUGHT if self.fault else EXACT

    @property
    def delay(self) -> Delay | None:
        return DELAYS[self.late] if self.late else None

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the places that must have run on GPUs for the trial to count."""
        return (*([FAULT_PLACE] if self.fault else []), *([self.delay.place] if self.delay else []))

    def late_places(self, rank: int, num_ranks: int) -> tuple[int, ...]:
        """Numbers of the places at which a rank is late: every rank, or the first or the last alone."""
        named = (self.fault and self.fault.late_rank) or (self.delay.rank if self.delay else "every")
        is_late = rank == {"first": 0, "last": num_ranks - 1}.get(named, rank)
        return (self.delay.place,) if self.delay and is_late else ()

    @property
    def injected(self) -> tuple[Edit, ...]:
        """What its library has ahead of the edits that all of a batch have."""
        return self.fault.injected if self.fault else ()

    def edits(self, batch: Batch) -> tuple[Edit, ...]:
        """All edits of its library on GPUs."""
        return () if self.control == AS_SHIPPED else (*self.injected, *batch.edits)

    def shape(self, base: Shape) -> Shape:
        """Of its exchanges: a fault may need another than the rest."""
        return replace(base, **dict(self.fault.shape if self.fault else ()))


def on_gpus(layouts: Sequence[str]) -> Iterator[Trial]:
    """What GPUs run: kernels that must be exact in some layouts, then every fault in its own."""
    for layout, arm in itertools.product(layouts, ARMS):
        yield Trial(AS_SHIPPED, arm, layout)
        for late in (None, *(delay.name for delay in DELAYS.values() if arm in delay.arms)):
            yield Trial(NOTHING, arm, layout, late)
    for one in ON_GPUS.values():
        for late in (None, *one.late):
            yield Trial(one.name, one.mutant.arm, one.layout, late)
