"""Fewer trials than every combination: each case once on each layout, at combinations that cover pairs of values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.validation.cases import COVER, Trial

_Pair = tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """What was chosen of trials.

    Args:
        trials: in the order they were declared.
        of: how many there were.
        pairs: of values that stand together in one of them, by case and by layout.
        missing: by case, pairs that stand together in no trial but those left out.
    """

    trials: tuple[Trial, ...]
    of: int
    pairs: int
    missing: Mapping[str, Sequence[str]]

    def lines(self) -> list[str]:
        """What is left out, in words."""
        lost = sum(map(len, self.missing.values()))
        lines = [f"{len(self.trials):,} of {self.of:,} trials; {self.pairs:,} of {self.pairs + lost:,} pairs of values"]
        return [*lines, *(f"left out of {case}: {', '.join(pairs)}" for case, pairs in self.missing.items())]


def each(trials: Sequence[Trial]) -> Choice:
    """All of them."""
    return Choice(tuple(trials), len(trials), len(_pairs(trials)), {})


def pairwise(trials: Sequence[Trial]) -> Choice:
    """One trial of each case on each layout, and those that cover shapes, which are a covering design already.

    Greedy: a case takes, layout by layout, the trial with the most pairs of values that the case has nowhere yet, and
    among these the one with the most that the layout has nowhere yet. The same trials give the same choice.
    """
    chosen = {trial for trial in trials if trial.case.name == COVER}
    seen: set[_Pair] = set()
    groups = dict.fromkeys((trial.case.name, trial.layout) for trial in trials if trial.case.name != COVER)
    for name, layout in groups:
        own = [trial for trial in trials if (trial.case.name, trial.layout) == (name, layout)]
        best = max(own, key=lambda trial: (_new(_of_case(trial), seen), _new(_of_layout(trial), seen)))
        seen |= {*_of_case(best), *_of_layout(best)}
        chosen.add(best)
    kept = tuple(trial for trial in trials if trial in chosen)
    reached = _pairs(kept)
    missing: dict[str, list[str]] = {}
    for case, *pair in _pairs(trials):
        if (case, *pair) not in reached:
            missing.setdefault(case, []).append(" ".join(pair))
    return Choice(kept, len(trials), len(reached), missing)


def _of_case(trial: Trial) -> list[_Pair]:
    return [(trial.case.name, *pair) for pair in combinations(_values(trial), 2)]


def _of_layout(trial: Trial) -> list[_Pair]:
    return [(trial.layout, *pair) for pair in combinations(_values(trial), 2)]


def _values(trial: Trial) -> tuple[str, ...]:
    return (trial.arm, trial.shape.dtype, trial.mode)


def _pairs(trials: Iterable[Trial]) -> dict[_Pair, None]:
    """Pairs of values of each case that is no covering design, and each case on each layout."""
    cases = [trial for trial in trials if trial.case.name != COVER]
    return dict.fromkeys(pair for trial in cases for pair in [*_of_case(trial), (trial.case.name, trial.layout)])


def _new(pairs: Iterable[_Pair], seen: set[_Pair]) -> int:
    return sum(pair not in seen for pair in pairs)
