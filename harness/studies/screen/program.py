"""A screen: arms compared in pairs of fresh processes, each of which times every cell of a row of the table.

Pairs run back to back, in both orders; where two trees are compared they change slots in half of the pairs. A block
holds whole pairs inside one allocation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.plan import Plan
from harness.ranks import exchanges
from harness.ranks.cells import Backend, Cell, Exchange, Row
from harness.ranks.exchanges import RoundTrip
from harness.study import Batch, Block, Ended, Said

ONE_TREE, TWO_TREES = 2, 4
"""Pairs of a block: {AB, BA}, and with two trees {AB, BA} x {straight, swapped}."""


@dataclass(frozen=True)
class ArmChoice:
    """An arm and the index of the tree that it is built from."""

    name: str
    tree: int = 0


@dataclass(frozen=True)
class Settings:
    """What a screen measures.

    Args:
        name: of the screen.
        rows: of its table, in order.
        tokens: tokens per Attention rank, in order.
        arms: baseline first.
        exchange: what all exchanges share.
        backend: where and how often cells are timed.
        published: table of the published figures beside it.
        declared_aa: whether two arms may have one identity.
        num_trees: that are compared.
    """

    name: str
    rows: tuple[Row, ...]
    tokens: tuple[int, ...]
    arms: tuple[ArmChoice, ...]
    exchange: Exchange
    backend: Backend
    published: str | None = None
    declared_aa: bool = False
    num_trees: int = 1

    @property
    def grace_s(self) -> float:
        """Two waits on the device may follow one another on a rank whose peer is gone."""
        return 2.0 * self.backend.device.wait_timeout_s if self.backend.device else 5.0


@dataclass(frozen=True)
class Trial:
    """A cell of one process: row and arm by index, the repeat, the place in its pair, and the tokens."""

    row: int
    arm: int
    pair: int
    position: int
    tokens: int


Record = RoundTrip
_START_S = 3.0
"""What a process takes until it measures."""


def blocks(settings: Settings, done: Sequence[RoundTrip]) -> Sequence[Block]:
    """Row by row, pair by pair; one round."""
    if done:
        return ()
    most = TWO_TREES if settings.num_trees == 2 else ONE_TREE
    found = []
    for row in range(len(settings.rows)):
        for first in range(0, settings.backend.pairs, most):
            pairs = range(first, min(first + most, settings.backend.pairs))
            batches = [_batch(settings, row, pair, at, arm) for pair in pairs for at, arm in order(settings, pair)]
            found.append(Block(tuple(batches), on_loss="void"))
    return found


def order(settings: Settings, pair: int) -> Iterator[tuple[int, int]]:
    """Position and arm of each process of a pair.

    Every second pair runs in the reverse order of the one before, so that a drift favours no arm in any two pairs; two
    pairs on the order is rotated by two, so that in `2 * arms` pairs each arm takes each position twice.
    """
    count = len(settings.arms)
    forward = [(position + pair - pair % 2) % count for position in range(count)]
    return enumerate(reversed(forward) if pair % 2 else forward)


def _batch(settings: Settings, row: int, pair: int, position: int, arm: int) -> Batch:
    backend = settings.backend
    trials = tuple(Trial(row, arm, pair, position, tokens) for tokens in settings.tokens)
    return Batch(
        trials,
        backend=backend.name,
        layout=settings.rows[row].layout,
        tree=settings.arms[arm].tree,
        swapped=settings.num_trees == 2 and pair // 2 % 2 == 1,
        ranks_per_gpu=backend.ranks_per_gpu if backend.name == "cuda" else None,
        pair=pair,
        expected_s=_START_S + sum(cell(settings, trial).expected_s for trial in trials),
    )


def cell(settings: Settings, trial: Trial) -> Cell:
    """The cell of a trial."""
    row, arm = settings.rows[trial.row], settings.arms[trial.arm].name
    return Cell(arm, row, settings.exchange, settings.backend, trial.tokens)


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Prove and time every cell of the row."""
    return exchanges.run([cell(group.settings, trial) for trial in batch.trials], group)


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[RoundTrip]:
    """One row a rank."""
    row = RoundTrip(screen=plan.settings.name, pair=trial.pair, position=trial.position)
    return exchanges.judge(plan, batch, cell(plan.settings, trial), ended, row)


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    row, arm = settings.rows[trial.row], settings.arms[trial.arm].name
    pair = f" pair {trial.pair + 1}/{settings.backend.pairs}" if settings.backend.pairs > 1 else ""
    return f"{row.layout} {row.hidden} {row.dtype} {row.routing} T={trial.tokens:<5d} {arm:<16s}{pair}"


figure = exchanges.figure
