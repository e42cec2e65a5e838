"""Statistics of paired screens. The unit of replication is the pair of fresh processes, never an iteration or cell."""

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Pair(NamedTuple):
    """One repeat of one cell: both arms' latency, in us."""

    baseline_us: float
    candidate_us: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.candidate_us / self.baseline_us)


def change_pct(pairs: Sequence[Pair]) -> float:
    """Geometric mean of the paired ratios as a percent change; negative means the candidate takes less time."""
    return 100.0 * math.expm1(math.fsum(pair.log_ratio for pair in pairs) / len(pairs))


def num_agreeing(pairs: Sequence[Pair]) -> int:
    """Pairs whose own change has the sign of the mean change, or is none where that is; a display, not a test."""
    mean = math.fsum(pair.log_ratio for pair in pairs)
    return sum(pair.log_ratio * mean > 0 or pair.log_ratio == mean == 0 for pair in pairs)


def rms_relative_error_pct(values: Sequence[float], references: Sequence[float]) -> float:
    """Root mean square of value / reference - 1, in percent."""
    errors = [value / reference - 1.0 for value, reference in zip(values, references, strict=True)]
    return 100.0 * math.sqrt(math.fsum(error * error for error in errors) / len(errors))


def median_and_worst(differences: Sequence[float]) -> tuple[float, float]:
    """The median of the differences, and the one farthest from zero with its sign."""
    return median(differences), max(differences, key=abs)
