"""What a validation declares: cases, the values that they run at, and the trials that follow from both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations, groupby, product
from operator import attrgetter
from typing import Annotated, Any, Literal

from afdep import Arm, controls
from harness.core.fields import ArmName, Count, Dtype, LayoutName, Microseconds, Name, Repeats, Seed, Within
from harness.errors import ConfigError
from harness.study import Backend

Condition = Literal[
    "full exchanges",
    "empty sources",
    "idle exchanges",
    "skipped sources",
    "skewed exchanges",
    "small spread sources",
    "late exchanges",
    "changed replays",
    "bucket changes",
    "reused counts",
    "informed ranks",
    "loaded switches",
    "role switches",
    "refused ranks",
    "found bits",
]
"""What must have happened in a trial, as `harness.studies.validate.ranks` counts it."""

_Pair = tuple[tuple[str, Any], tuple[str, Any]]

COVER = "cover"
"""The case of trials that are a covering design."""

EACH, ALL = "each", "all"
"""Of a case's control: a case for each of them and one for all together, or all together."""

EXACT = "exact"
_MAY_DIFFER = tuple(control.name for control in controls.CONTROLS if control.scope == "launch")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Values of each axis.

    Args:
        arm: canonical names.
        dtype: of the dispatch payload.
        hidden: elements of a row.
        num_experts: over all FFN ranks.
        top_k: routes of a token.
        transport_sms: CTAs of the main kernels.
        tokens: of a source that sends all it has, where the bucket holds as many.
        routing: kind of the expert ids.
        mode: calls of the host, or replays of one graph a bucket whose inputs change in place.
    """

    arm: tuple[ArmName, ...] = ()
    dtype: tuple[Dtype, ...] = ()
    hidden: tuple[Count, ...] = ()
    num_experts: tuple[Count, ...] = ()
    top_k: tuple[Count, ...] = ()
    transport_sms: tuple[Count, ...] = ()
    tokens: tuple[Count, ...] = ()
    routing: tuple[Literal["random", "skew", "spread", "all-to-one"], ...] = ()
    mode: tuple[Literal["eager", "graph"], ...] = ()

    def values(self) -> dict[str, tuple[Any, ...]]:
        """By axis, of those that have some."""
        return {one.name: held for one in fields(Axes) if (held := getattr(self, one.name))}


@dataclass(frozen=True, kw_only=True)
class Case(Axes):
    """One behaviour. Values of an axis stand in place of those that cases have elsewhere.

    Args:
        shows: what its trials show, in words.
        condition: its coverage condition: what must have happened in a trial for it to count.
        exchanges: of a trial, each checked by itself; eager ones that may run free do so once more, unchecked between.
        sources: an amount for each source, repeated: all its tokens, one, none, all without a route, or none until the
            last exchange.
        rotate: whether the amounts move on by one source an exchange.
        buckets: classes of tokens, in turn; none means the tokens of the trial.
        delay_ffn_us: a pause of the last FFN rank ahead of its replies.
        delay_source_us: a pause of the first source ahead of its dispatch.
        invalid: the route in the last exchange that no kernel may take: E, -2, an id whose low 32 bits are a valid
            one, or an expert that its token has twice.
        corrupted: where a trial turns one bit itself after the last exchange, to see whether the comparison finds it.
        control: whether a control is switched on: its name, `all`, or `each` for a case of each.
        one_role: whether FFN ranks alone have the control.
        host_counts: whether FFN ranks read the counts of an exchange once the next is under way.
    """

    shows: str
    condition: Condition
    exchanges: Count = 4
    sources: Annotated[tuple[Literal["full", "one", "none", "skipped", "idle"], ...], Repeats()] = ("full",)
    rotate: bool = False
    buckets: Annotated[tuple[Count, ...], Repeats()] = ()
    delay_ffn_us: Microseconds = 0
    delay_source_us: Microseconds = 0
    invalid: Literal["beyond", "below", "wide", "duplicate"] | None = None
    corrupted: Literal["collected", "received"] | None = None
    control: str | None = None
    one_role: bool = False
    host_counts: bool = False

    @property
    def expects(self) -> str:
        """What a trial must end in, in words."""
        if self.corrupted:
            return "MismatchError"
        if self.one_role and self.control not in _MAY_DIFFER:
            return "AgreementError on every rank"
        return "DeviceAssertion on every rank" if self.invalid else EXACT

    @property
    def pause_us(self) -> int:
        """Whoever pauses."""
        return self.delay_ffn_us + self.delay_source_us

    @property
    def runs_free(self) -> bool:
        """Whether the exchanges also run one behind the other without a look in between."""
        return self.expects == EXACT and not self.pause_us and not self.one_role

    def with_control(self, name: str) -> "Case":
        """The case of one control; one that ranks may have alone is to pass, and that they have it is what counts."""
        named = replace(self, control=name)
        return replace(named, condition="role switches") if self.one_role and named.expects == EXACT else named


_COVERING = Case(shows="exchanges are exact whatever the shape", condition="full exchanges")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One case at one point.

    Args:
        backend: sim or cuda.
        case: its name.
        layout, arm, dtype, hidden, num_experts, top_k, transport_sms, tokens, routing, mode: the point.
    """

    backend: str = "sim"
    case: str = ""
    layout: str = ""
    arm: str = ""
    dtype: str = ""
    hidden: int = 0
    num_experts: int = 0
    top_k: int = 0
    transport_sms: int = 0
    tokens: int = 0
    routing: str = ""
    mode: str = ""


@dataclass(frozen=True)
class Matrix:
    """What is validated.

    Raises:
        ConfigError: an axis of `every` without a value.

    Args:
        layouts: that every case runs on.
        machine: of the simulator.
        seed: of routes and payload.
        choose: all: every trial; pairs: each case once a layout, at points that cover pairs of arm, dtype and mode.
        cover: values of which each pair, and each with a layout, stands together in at least one of few trials.
        every: each case runs at each combination of these.
        cases: by name.
    """

    layouts: Annotated[tuple[LayoutName, ...], Within(1)]
    machine: Name
    seed: Seed
    choose: Literal["all", "pairs"]
    cover: Axes
    every: Axes
    cases: Mapping[str, Case]

    def __post_init__(self) -> None:
        if lacking := [one.name for one in fields(Axes) if not getattr(self.every, one.name)]:
            raise ConfigError(f"validation.every.{lacking[0]}: expected a value, received none.", "Give it one.")

    @cached_property
    def all_cases(self) -> dict[str, Case]:
        """By name the cases that trials are of: several of a declared one that is for each control."""
        found = {COVER: _COVERING}
        for name, case in self.cases.items():
            switched = (*controls.NAMES, *([] if case.one_role else [ALL])) if case.control == EACH else ()
            each = {f"{name} {one.removeprefix(controls.PREFIX)}": case.with_control(one) for one in switched}
            found |= each or {name: case}
        return found

    def trials(self, backend: Backend) -> Iterator[Trial]:
        """Every trial of a backend."""
        base = {axis: values[0] for axis, values in self.every.values().items()}
        for point in covering({"layout": self.layouts, **self.cover.values()}) if self.cover.values() else ():
            yield Trial(backend=backend, case=COVER, **{**base, **point})
        for name, case in list(self.all_cases.items())[1:]:
            axes = {"layout": self.layouts, **self.every.values(), **case.values()}
            for values in product(*axes.values()):
                point = dict(zip(axes, values, strict=True))
                yield Trial(backend=backend, case=name, **{**point, "arm": _with_control(point["arm"], case.control)})


def _with_control(arm: str, control: str | None) -> str:
    """An arm with a control, or with all, switched on. Raises ControlError where there is no such control."""
    names = controls.NAMES if control == ALL else () if control is None else (control,)
    return Arm.parse(f"{arm}[{','.join(f'{name}=1' for name in names)}]").name if names else arm


def covering(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Points of the product of all axes, such that every pair of values of any two axes is in one of them.

    Greedy: each point starts with a pair that none has yet, and takes, axis by axis, the value that adds the most
    missing pairs. The same axes give the same points.
    """
    missing: dict[_Pair, None] = dict.fromkeys(
        ((a, x), (b, y)) for a, b in combinations(axes, 2) for x in axes[a] for y in axes[b]
    )
    points: list[dict[str, Any]] = []
    while missing:
        point: dict[str, Any] = dict(next(iter(missing)))
        for axis in axes:
            if axis not in point:
                point[axis] = _best(axis, axes[axis], point, missing, len(points))
        points.append({axis: point[axis] for axis in axes})
        for pair in combinations(points[-1].items(), 2):
            missing.pop(pair, None)
    return points


def _best(axis: str, values: Sequence[Any], point: Mapping[str, Any], missing: Mapping[_Pair, None], turn: int) -> Any:
    """The value with the most missing pairs; equal ones take turns from point to point."""
    rotated = [(axis, value) for value in [*values[turn % len(values) :], *values[: turn % len(values)]]]
    gains = {new: sum((new, old) in missing or (old, new) in missing for old in point.items()) for new in rotated}
    return max(gains, key=gains.__getitem__)[1]


def pairwise(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of covering designs, and of those behind them one of each case on each layout.

    Greedy: a case takes, layout by layout, the trial with the most pairs of values that the case has nowhere yet, and
    among these the one with the most that the layout has nowhere yet. The same trials give the same choice.
    """
    chosen = [one for one in trials if one.case == COVER]
    seen: set[tuple[str, ...]] = set()
    for names, own in groupby(trials[len(chosen) :], attrgetter("case", "layout")):
        best = max(own, key=lambda one: [len({*_pairs(name, one)} - seen) for name in (one.case, one.layout)])
        seen |= {pair for name in names for pair in _pairs(name, best)}
        chosen.append(best)
    return chosen


def left_out(declared: Sequence[Trial], chosen: Sequence[Trial]) -> dict[str, list[str]]:
    """By case, pairs of values that only declared trials have, and layouts that it lacks."""
    reached = _reached(chosen)
    missing = [pair for pair in _reached(declared) if pair not in reached]
    return {case: [" ".join(pair) for name, *pair in missing if name == case] for case, *_ in missing}


def _reached(trials: Sequence[Trial]) -> dict[tuple[str, ...], None]:
    """What each case but the covering one has: pairs of values, and layouts."""
    own = [one for one in trials if one.case != COVER]
    return dict.fromkeys(pair for one in own for pair in [*_pairs(one.case, one), (one.case, one.layout)])


def _pairs(name: str, trial: Trial) -> list[tuple[str, ...]]:
    """A trial's pairs of values, under a name."""
    return [(name, *pair) for pair in combinations((trial.arm, trial.dtype, trial.mode), 2)]
