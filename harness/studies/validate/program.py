"""Correctness cases on every layout: each element of each rank is compared with the reference, bit for bit.

A trial is one case at one point. Trials of the simulator share processes that hold all ranks; on GPUs a process a rank
runs the trials of a layout, and a trial that a rank does not survive ends them: new ones run the trials behind it.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from afdep import BuildError, Machine
from harness.core.fields import Within
from harness.core.plan import Plan
from harness.errors import UsageError, valid_names
from harness.ranks import contract
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.studies.validate.cases import Matrix, Trial, pairwise
from harness.studies.validate.exchange import Setup
from harness.studies.validate.protocol import LostRankError, PeerFailedError, in_words, perform
from harness.studies.validate.ranks import CONDITIONS
from harness.study import Backend, Batch, Block, Ended, Said, VoidError

BACKENDS = {"sim": ("harness.studies.validate.simulated",), "cuda": ("harness.studies.validate.device",)}
FINAL = (OK, FAILED)

_STARTS = {"sim": (25, 1.0, 0.25), "cuda": (100, 10.0, 0.35)}
"""Most trials of one start, so that one takes a minute or less; seconds that a start and a trial take."""

_AGAIN = "Its trial has failed, and fresh ranks run those behind it."


@dataclass(frozen=True)
class Settings:
    """What is validated, and where.

    Args:
        validation: layouts, cases and the points that they run at.
        backends: simulated trials run first; those of cuda are void where there are no GPUs.
        cases: that are run, by their names or how these begin; all where none is given.

    Raises:
        UsageError: no case of such a name.
        MachineError: no such machine.
    """

    validation: Matrix
    backends: Annotated[tuple[Backend, ...], Within(1)]
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Machine.load(self.validation.machine)
        known = list(self.validation.all_cases)
        for name in self.cases:
            if not any(one.startswith(name) for one in known):
                raise UsageError(f"cases: expected a case of the matrix, received {name!r}.", valid_names(name, known))

    def declared(self, backend: Backend) -> list[Trial]:
        """Every trial of a backend and of the cases that are asked for."""
        return [one for one in self.validation.trials(backend) if one.case.startswith(self.cases or "")]

    def chosen(self, backend: Backend) -> list[Trial]:
        """Those of them that are run."""
        trials = self.declared(backend)
        return pairwise(trials) if self.validation.choose == "pairs" else trials


@dataclass(frozen=True, kw_only=True)
class Record(Envelope, Trial):
    """One trial, and what came of it.

    Args:
        shows: what the case shows, in words.
        seed: of routes and payload.
        buckets: classes of tokens, in turn, in words.
        expects: exact, or the error that every rank must raise.
        condition: what must have happened for the trial to count.
        times_met: how often it did.
        exchanges: compared bit for bit without a difference.
        free_exchanges: how many of them ran one behind the other, of which received rows are compared in the last.
        elements: compared, of rows, weights and scales.
        protocol: as the loaded library reports it; null where none was loaded.
        ranks_per_gpu: ranks that share a GPU; 1 on the simulator.
        cpu_s: of the simulator's process.
    """

    table: ClassVar[str] = "trials"

    shows: str = ""
    seed: int = 0
    buckets: str = ""
    expects: str = ""
    condition: str = ""
    times_met: int = 0
    exchanges: int = 0
    free_exchanges: int = 0
    elements: int = 0
    protocol: str | None = None
    ranks_per_gpu: int = 1
    cpu_s: float = 0.0


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """One round of trials that count each by itself: a block for each start.

    Raises:
        ShapeError: a trial of a shape that the kernels do not carry.
    """
    if done:
        return ()
    backends = sorted(settings.backends, key=list(BACKENDS).index)
    return [Block((batch,)) for backend in backends for batch in _batches(settings, backend)]


def _batches(settings: Settings, backend: Backend) -> Iterator[Batch]:
    by_layout: dict[str | None, list[Trial]] = {}
    for trial in settings.chosen(backend):
        Setup.of(settings.validation, trial).shape  # noqa: B018 - refuses what the kernels do not carry
        by_layout.setdefault(trial.layout if backend == "cuda" else None, []).append(trial)
    most, start_s, trial_s = _STARTS[backend]
    for layout, trials in by_layout.items():
        for first in range(0, len(trials), most):
            own = tuple(trials[first : first + most])
            yield Batch(own, backend, layout, expected_s=start_s + len(own) * trial_s)


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run every trial, or those up to one that leaves a rank unable to run any other.

    That rank ends by its error and says nothing of the trial, and its peers end with it: a fresh start runs the rest. A
    rank that is lost for the sake of another says so.

    Raises:
        VoidError: the library cannot be built here.
    """
    try:
        group.session.opened(**contract.built(batch.backend, group.library))
    except BuildError as error:
        raise VoidError(error.problem) from error
    backend: Any = importlib.import_module(*BACKENDS[batch.backend])
    gpus = group.session.job.gpus
    group.turn()
    for index, trial in enumerate(batch.trials):
        setup = Setup.of(group.settings.validation, trial)
        try:
            with backend.watched(group):
                facts = perform(setup, backend, group)
            if "lost" in facts and "told" not in facts:
                raise LostRankError(facts["lost"], _AGAIN)
        except Exception as error:
            with suppress(PeerFailedError):
                backend.meet(in_words(error))
            raise
        yield Said(index, {**facts, "ranks_per_gpu": max(map(gpus.count, gpus), default=1)})
        backend.meet(facts.get("lost"))
        if "lost" in facts:
            raise LostRankError(facts["lost"], _AGAIN)


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row: what all ranks say together."""
    matrix, said = plan.settings.validation, list(ended.said.values())
    setup = Setup.of(matrix, trial)
    status, reason, times_met = _verdict(setup, plan.trees[batch.tree].native_digest(batch.backend), ended)
    of_library = next((one for one in said if "digest" in one), {})
    return [
        Record(
            **{one.name: getattr(trial, one.name) for one in fields(Trial)},
            **{name: getattr(setup.case, name) for name in ("shows", "expects", "condition")},
            seed=matrix.seed,
            buckets=", ".join(map(str, setup.buckets)),
            machine=matrix.machine if batch.backend == "sim" else "none",
            status=status,
            reason=reason,
            times_met=times_met,
            exchanges=min((int(one.get("exact", 0)) for one in said), default=0),
            free_exchanges=min((int(one.get("free", 0)) for one in said), default=0),
            elements=sum(int(one.get("elements", 0)) for one in said),
            native_digest=of_library.get("digest"),
            protocol=of_library.get("protocol"),
            ranks_per_gpu=max((int(one["ranks_per_gpu"]) for one in said), default=1),
            cpu_s=float(sum(one.get("cpu_s", 0) for one in said if batch.backend == "sim")),
        )
    ]


def _verdict(setup: Setup, planned: str, ended: Ended) -> tuple[str, str | None, int]:
    """Status, reason, and how often the coverage condition was met."""
    said = ended.said
    if ended.status != OK:
        return ended.status, ended.reason, 0
    if told := [f"rank {rank}: {one['told']}" for rank, one in sorted(said.items()) if "told" in one]:
        return FAILED, "; ".join(told), 0
    if others := {one["digest"] for one in said.values() if "digest" in one} - {planned}:
        return VOID, f"digest: the plan expects {planned}, the loaded library reports {', '.join(sorted(others))}", 0
    times_met = CONDITIONS[setup.case.condition][1]([int(one["count"]) for one in said.values()])
    if not times_met:
        return FAILED, f"coverage condition: expected {setup.case.condition}, counted none", 0
    return OK, None, times_met


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    return (
        f"{trial.backend} {trial.case}: {trial.layout} {trial.hidden} {trial.dtype} {trial.routing} T={trial.tokens} "
        f"{trial.arm} {trial.mode}"
    )


def figure(rows: Sequence[Record]) -> str:
    """A trial that counts, in words."""
    (row,) = rows
    return f"{row.exchanges} exact exchanges, {row.elements:,} elements"


def machine(settings: Settings) -> str | None:
    """The simulated machine that results come from."""
    return settings.validation.machine if "sim" in settings.backends else None
