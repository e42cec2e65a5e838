"""What an exchange without tokens costs: every launch, count and wait of a protocol, and nothing that is moved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.fields import ArmName, Count, LayoutName
from harness.core.plan import Plan
from harness.ranks import exchanges
from harness.ranks.cells import Backend, Cell, Exchange, Row
from harness.ranks.exchanges import RoundTrip
from harness.study import Asked, Batch, Block, Ended, Said

Record = RoundTrip


@dataclass(frozen=True)
class Settings:
    """What is measured.

    Args:
        layouts: that are measured.
        arms: that are measured in each.
        hidden: elements of the rows that nobody sends.
        num_experts: over all FFN ranks.
        exchange: what all exchanges share.
        backend: where and how often they are timed.
    """

    layouts: tuple[LayoutName, ...]
    arms: tuple[ArmName, ...]
    hidden: Count
    num_experts: Count
    exchange: Exchange
    backend: Backend


@dataclass(frozen=True)
class Trial:
    """One process."""

    layout: str
    arm: str
    pair: int


def blocks(settings: Settings, done: Sequence[RoundTrip]) -> Sequence[Block]:
    """A block for each layout and repeat, with a process for each arm."""
    if done:
        return ()
    repeats = [(layout, pair) for layout in settings.layouts for pair in range(settings.backend.pairs)]
    return [Block(tuple(_batch(settings, *one, arm) for arm in settings.arms), on_loss="void") for one in repeats]


def _batch(settings: Settings, layout: str, pair: int, arm: str) -> Batch:
    backend = settings.backend
    return Batch((Trial(layout, arm, pair),), backend.name, layout, ranks_per_gpu=backend.ranks_per_gpu, pair=pair)


def arms(settings: Settings) -> Sequence[Asked]:
    """Whose identities the plan holds."""
    return [
        Asked(arm, 0, settings.backend.name, cell(settings, Trial(settings.layouts[0], arm, 0)).world)
        for arm in settings.arms
    ]


def cell(settings: Settings, trial: Trial) -> Cell:
    """The cell of a process: no source has a token."""
    row = Row(trial.layout, settings.hidden, "bf16", "random", settings.num_experts)
    return Cell(trial.arm, row, settings.exchange, settings.backend, tokens=0)


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Prove and time the one cell."""
    return exchanges.run([cell(group.settings, trial) for trial in batch.trials], group)


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[RoundTrip]:
    """One row a rank."""
    return exchanges.judge(plan, batch, cell(plan.settings, trial), ended, RoundTrip(pair=trial.pair))


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    return f"{trial.layout} {trial.arm}"


figure = exchanges.figure
