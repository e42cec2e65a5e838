"""What is played on GPUs: one library, one delay or none, one layout; and what must come of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.faults.guards import GUARDS, Guard
from harness.faults.late import BY_NAME, LATES, Late
from harness.faults.trees import LATE, SHIPPED

ARMS = ("m2n", "afdep")
EXACT, CAUGHT = "exact", "caught"
NOTHING = "nothing is taken away"
AS_SHIPPED = "as shipped"
GUARD_PLACE = 0
"""`kGuardPlace` of native/faults.cuh: where a guard was."""

NUM_PLACES = 32
"""`kPlaces` of native/faults.cuh."""


@dataclass(frozen=True)
class Shape:
    """The exchanges of a trial: see ExchangeShape; a source sends `tokens`, its bucket, `exchanges` times a round."""

    hidden: int
    num_experts: int
    top_k: int
    tokens: int
    transport_sms: int
    exchanges: int


@dataclass(frozen=True)
class Trial:
    """One library at one delay.

    Args:
        control: what is wrong, or that nothing is.
        library: its name in the folder.
        arm, layout: canonical names.
        late: what is late, or None.
        place: the number of that place, or None.
        late_rank: every rank, or the first or the last alone.
        late_us: how long each thread is held there.
        marked: numbers of the places that must have run for the trial to count.
        expects: exact, or caught.
        restarts: whether its kernels may leave their memory or never end.
        shape: of its exchanges.
        rounds: at most so many, each over poisoned memory.
        seed: of payload, routes and weights.
    """

    control: str
    library: str
    arm: str
    layout: str
    late: str | None
    place: int | None
    late_rank: str
    late_us: int
    marked: tuple[int, ...]
    expects: str
    restarts: bool
    shape: Shape
    rounds: int
    seed: int

    @property
    def label(self) -> str:
        late = "" if self.late is None else f", late {self.late}"
        return f"{self.control} ({self.arm}, {self.layout}{late})"

    def world_fields(self) -> dict[str, Any]:
        """The exchange shape as `afdep.World` and `afdep.cuda.Buffer` take it."""
        shape = self.shape
        return {
            "layout": self.layout,
            "hidden": shape.hidden,
            "num_experts": shape.num_experts,
            "top_k": shape.top_k,
            "capacity": shape.tokens,
            "transport_sms": shape.transport_sms,
        }


@dataclass(frozen=True)
class Making:
    """What all trials share.

    Args:
        layouts: of those that must be exact.
        shape: where a guard has none of its own.
        rounds, late_us, seed: as in Trial.
    """

    layouts: tuple[str, ...]
    shape: Shape
    rounds: int
    late_us: int
    seed: int

    def trials(self) -> list[Trial]:
        """Every trial: those that must be exact, then guards; behind all layouts those that may end a process.

        Layouts are in reverse order at first and in order at the end, so that one start may play on across the two.
        """
        made = [*self._ends(), *(one for guard in GUARDS for one in self._without(guard))]
        layouts = sorted({one.layout for one in made})
        turn = {(layout, late): index if late else -index for index, layout in enumerate(layouts) for late in (0, 1)}
        return sorted(made, key=lambda one: (one.restarts, turn[one.layout, int(one.restarts)], one.expects != EXACT))

    def _ends(self) -> Iterator[Trial]:
        for layout in self.layouts:
            for arm in ARMS:
                yield self._trial(AS_SHIPPED, SHIPPED, arm, layout, None, {})
                for late in (None, *(one for one in LATES if arm in one.arms)):
                    yield self._trial(NOTHING, LATE, arm, layout, late, {})

    def _without(self, guard: Guard) -> Iterator[Trial]:
        for name in (None, *guard.late):
            late = None if name is None else BY_NAME[name]
            yield self._trial(guard.name, guard.slug, guard.arm, guard.layout, late, dict(guard.shape), guard)

    def _trial(
        self,
        control: str,
        library: str,
        arm: str,
        layout: str,
        late: Late | None,
        changes: Mapping[str, int],
        guard: Guard | None = None,
    ) -> Trial:
        places = [GUARD_PLACE] * (guard is not None) + ([late.place] if late is not None else [])
        told: dict[str, Any] = {**vars(self.shape), **changes}
        return Trial(
            control=control,
            library=library,
            arm=arm,
            layout=layout,
            late=None if late is None else late.name,
            place=None if late is None else late.place,
            late_rank="every" if late is None else (guard.late_rank if guard else None) or late.rank,
            late_us=0 if late is None else self.late_us,
            marked=tuple(places),
            expects=EXACT if guard is None else CAUGHT,
            restarts=guard is not None and guard.restarts,
            shape=Shape(**told),
            rounds=self.rounds,
            seed=self.seed,
        )
