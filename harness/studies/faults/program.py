"""Injected faults and late kernels: each hunted on the simulator, and run on GPUs beside kernels that must be exact.

A fault takes one fence, wait or barrier out of the kernels. On GPUs it leaves a mark as it runs, and kernels can be
held up at some places: the host sets a delay for one trial. One start of ranks runs trials of many libraries in turn.
"""

import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from afdep import Layout, routing
from afdep.shapes import ExchangeShape
from harness.core.fields import Count, LayoutName, Limit, Seed, Unit, Within
from harness.core.plan import Plan
from harness.errors import ConfigError
from harness.ranks.cells import Shape
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.studies.faults.mutants import MARKS_AND_DELAYS, SHORT_ROWS
from harness.studies.faults.rounds import KINDS
from harness.studies.faults.trials import (
    ARMS,
    AS_SHIPPED,
    CAUGHT,
    EXACT,
    NOTHING,
    ON_GPUS,
    Trial,
    on_gpus,
)
from harness.study import Backend, Batch, Block, Ended, Said

BACKENDS = {"sim": ("harness.studies.faults.simulator",), "cuda": ("harness.studies.faults.device",)}
FINAL = (OK, FAILED)
JUDGES_ENDINGS = True

MACHINE = "h100-nvlink"
SIMULATED = f"{MACHINE}, small"
"""What `afdep.proof.hunt.small_machine` is called."""

_HIDDEN_STEP = 1024
"""Rows of which the only reduction of the libraries takes any number."""
_START_S, _TRIAL_S, _HUNT_S = 8.0, 0.5, 12.0


@dataclass(frozen=True)
class Settings:
    """What is run.

    Args:
        backends: the hunt on the simulator, runs on GPUs, or both.
        layouts: of kernels that must be exact: as shipped, and with each delay.
        shape: of the exchanges on GPUs, where a fault has none of its own.
        rounds: of a trial, each over poisoned memory; the first that is not exact is the last.
        late_us: of one delay; an exchange takes a tenth of that.
        timeout_s: of one wait on the device.
        stuck_s: when kernels that still run are taken to hang.
        limit_s: of one start of ranks; what it has not come to is started again.
        seed: of payload, routes and weights.
        shipped_seeds: hunted of each arm as it is shipped; a night has far more.
    """

    backends: tuple[Backend, ...]
    layouts: tuple[LayoutName, ...]
    shape: Shape
    rounds: Count
    late_us: Annotated[int, Within(1), Unit("us")]
    timeout_s: Limit
    stuck_s: Limit
    limit_s: Limit
    seed: Seed
    shipped_seeds: Count

    def __post_init__(self) -> None:
        if self.shape.hidden % _HIDDEN_STEP:
            raise ConfigError(
                f"shape.hidden: expected a multiple of {_HIDDEN_STEP:,}, received {self.shape.hidden}.",
                "The libraries hold one reduction, for such rows.",
            )
        for layout, shape in dict.fromkeys((str(one.layout), one.shape(self.shape)) for one in on_gpus(self.layouts)):
            ExchangeShape(Layout.parse(layout), **shape.fields)
            routing.make("random", 0, shape.num_experts, shape.top_k, self.seed)

    @property
    def grace_s(self) -> float:
        """A rank may wait, and then look whether its kernels are stuck, when a peer is gone."""
        return self.stuck_s + 2.5 * self.timeout_s


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """What came of one library, in the hunt or on GPUs under one delay.

    Args:
        control: what is wrong, or that nothing is.
        arm: canonical name.
        layout: that it ran on; null in a hunt, whose seeds draw theirs.
        ranks_per_gpu: ranks on the fullest GPU.
        late: what is late; null: nothing. The simulator delays of its own accord.
        late_us: how long each thread is held there.
        hidden, num_experts, top_k, tokens, transport_sms: of the exchanges on GPUs; null in a hunt.
        expects: exact, or caught.
        caught: what found the fault; null where nothing did.
        said: what was found, in words.
        exchanges: run on GPUs until one was not exact; null in a hunt, and where none ran.
        exact: of these, compared and without a difference.
        seeds: that were hunted, the last of which found it; null on GPUs, and where none was.
        marked: whether every place that must have run said so; null in a hunt.
    """

    table: ClassVar[str] = "faults"

    control: str = ""
    arm: str = ""
    layout: str | None = None
    ranks_per_gpu: int = 1
    late: str | None = None
    late_us: int = 0
    hidden: int | None = None
    num_experts: int | None = None
    top_k: int | None = None
    tokens: int | None = None
    transport_sms: int | None = None
    expects: str = EXACT
    caught: str | None = None
    said: str | None = None
    exchanges: int | None = None
    exact: int | None = None
    seeds: int | None = None
    marked: bool | None = None


def machine(settings: Settings) -> str | None:
    """The machine whose constants the hunt has, but for its size."""
    return MACHINE if "sim" in settings.backends else None


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """The hunts, and the starts on GPUs; one round."""
    made = {"sim": _hunts(), "cuda": _starts(settings)}
    return () if done else [Block(tuple(made[backend])) for backend in settings.backends]


def _hunts() -> Iterator[Batch]:
    trials = [*(Trial(NOTHING, arm) for arm in ARMS), *(Trial(one.name, one.mutant.arm) for one in ON_GPUS.values())]
    for one in trials:
        edits = (*one.fault.mutant.edits, *SHORT_ROWS) if one.fault else ()
        yield Batch((one,), edits=edits, expected_s=_HUNT_S)


def _starts(settings: Settings) -> Iterator[Batch]:
    """A start for each layout, those behind all others that may end a process; where all is exact comes first."""

    def place(one: Trial) -> tuple[bool, str]:
        return one.fault is not None and one.fault.restarts, str(one.layout)

    ordered = sorted(on_gpus(settings.layouts), key=lambda one: (*place(one), one.expects == CAUGHT))
    for (_, layout), group in itertools.groupby(ordered, key=place):
        trials = tuple(group)
        yield Batch(
            trials,
            "cuda",
            layout,
            edits=MARKS_AND_DELAYS,
            libraries=tuple(dict.fromkeys(one.injected for one in trials if one.control != AS_SHIPPED)),
            limit_s=settings.limit_s,
            expected_s=_START_S + _TRIAL_S * len(trials),
        )


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Hunt, or run rounds on this rank."""
    yield from importlib.import_module(BACKENDS[batch.backend][0]).run(batch, group)


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row, by the gravest of what its ranks say; none where the processes left behind the trial before."""
    if not (ended.said or ended.endings or ended.void):
        return []
    said = dict(sorted(ended.said.items()))
    missing = sorted(set(trial.places).difference(*(one["marks"] for one in said.values()))) if trial.layout else []
    row = Record(**vars(trial), expects=trial.expects, **_figures(plan.settings, trial, ended, not missing))
    kind = next((one for one in KINDS if one in {told["ended"] for told in said.values()}), None)
    if ended.status != OK and (kind is None or row.expects == EXACT):
        is_found = row.expects == EXACT and (kind is not None or not ended.void)
        return [replace(row, status=FAILED if is_found else VOID, reason=ended.reason)]
    words = [f"rank {rank}: {one['failed']}" for rank, one in said.items() if one["ended"] == kind]
    reason = "; ".join(words) if trial.layout else ended.reason
    if missing:
        return [replace(row, status=VOID, reason=f"places {missing} never ran{f'; {reason}' if reason else ''}")]
    return [replace(row, caught=kind, said=reason or None)]


def _figures(settings: Settings, trial: Trial, ended: Ended, marked: bool) -> dict[str, Any]:
    """What ran, in numbers: of the hunt, or of all ranks."""
    said = list(ended.said.values())
    digest = next((one["digest"] for one in said if "digest" in one), None)
    if trial.layout is None:
        return {"machine": SIMULATED, "native_digest": digest, "seeds": said[0]["seeds"] if said else None}
    shape = {name: held for name, held in vars(trial.shape(settings.shape)).items() if name != "exchanges"}
    counts = {
        "native_digest": digest,
        "late_us": settings.late_us if trial.late else 0,
        "ranks_per_gpu": ended.opened.get(0, {}).get("ranks_per_gpu", 1),
        "exchanges": max((one["exchanges"] for one in said), default=None),
        "exact": min((one["exact"] for one in said), default=None),
        "marked": marked if said else None,
    }
    return {**shape, **counts}


def figure(rows: Sequence[Record]) -> str:
    """What came of a trial, in words."""
    (one,) = rows
    count = f"{one.exchanges} exchanges" if one.seeds is None else f"{one.seeds} seeds"
    return f"{outcome(one)}, {count}{f': {one.said}' if one.said else ''}"


def outcome(one: Record) -> str:
    """exact, passed, void or failed, or what caught the fault: the one word of tables."""
    if one.status != OK:
        return one.status
    return f"caught: {one.caught}" if one.caught else EXACT if one.expects == EXACT else "passed"
