"""From readings to constants: medians through the rules; what no reading gives stays, what cannot be is void."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from afdep import Machine
from harness.records.envelope import OK, VOID, Row
from harness.studies.calibrate.program import Limits, Record
from harness.studies.calibrate.rules import RULE_OF, Place, Rule

MEASURED, KEPT = "measured", "kept"
"""What became of a constant beside `void`: a probe gave its value; no reading gives one, and the base's stays."""


@dataclass(frozen=True, kw_only=True)
class Calibrated(Row):
    """What became of one constant of a machine description.

    Args:
        constant: its name.
        unit: its unit.
        base: value in the machine description that was the base.
        base_source: where that value came from.
        probe: the readings that it follows from; empty where none gives it.
        outcome: `measured`, `void` or `kept`.
        reason: why it is void or kept, or null.
        value: what was measured, also where it is void; null where nothing was.
        spread: half the distance from the 10th to the 90th percentile, carried through; null as the value.
        samples: of the reading that has fewest; 0 without any.
    """

    table: ClassVar[str] = "calibrated"
    constant: str
    unit: str
    base: float
    base_source: str
    probe: str = ""
    outcome: str = KEPT
    reason: str | None = None
    value: float | None = None
    spread: float | None = None
    samples: int = 0


Summary = tuple[float, float, int]
"""A reading's median, spread and number of samples."""


def summarised(samples: Sequence[float]) -> Summary:
    """Of a reading."""
    low, middle, high = map(float, np.percentile(samples, (10, 50, 90)))
    return middle, (high - low) / 2, len(samples)


def latest(rows: Sequence[Record]) -> list[Record]:
    """The readings of the last attempt."""
    return [row for row in rows if row.attempt == max(one.attempt for one in rows)]


def judge(machine: Machine, readings: Sequence[Record], limits: Limits) -> tuple[Calibrated, ...]:
    """Every constant of a machine description, in its order, as the readings have it."""
    read = [one for one in readings if one.status == OK and one.samples]
    found = {Place(one.probe, one.variant, one.ctas, one.bytes): summarised(one.samples) for one in read}
    reasons = {one.probe: str(one.reason) for one in reversed(readings) if one.status != OK}
    plain = [Calibrated(constant=c.name, unit=c.unit, base=c.value, base_source=c.source) for c in machine.table]
    return tuple(_judged(one, machine.constants(), found, reasons, limits) for one in plain)


def _judged(
    plain: Calibrated,
    base: Mapping[str, float],
    found: Mapping[Place, Summary],
    reasons: Mapping[str, str],
    limits: Limits,
) -> Calibrated:
    rule = RULE_OF.get(plain.constant)
    if rule is None:
        return replace(plain, reason="no probe measures it")
    probed = replace(plain, probe="; ".join(map(str, rule.places)))
    missing = [place for place in rule.places if place not in found]
    if missing:
        reason = reasons.get(missing[0].probe) or reasons.get(rule.group)
        return replace(probed, outcome=VOID if reason else KEPT, reason=reason or f"no reading of {missing[0]}")
    inputs = [found[place] for place in rule.places]
    value, spread = _carried_through(rule, inputs, base)
    fault = _fault(plain, value, spread, limits)
    outcome, samples = VOID if fault else MEASURED, min(size for _, _, size in inputs)
    return replace(probed, outcome=outcome, reason=fault, value=value, spread=spread, samples=samples)


def _carried_through(rule: Rule, inputs: Sequence[Summary], base: Mapping[str, float]) -> tuple[float, float]:
    """The value, and its spread: how far each reading's spread moves it, as the root of the sum of squares."""
    medians = [median for median, _, _ in inputs]
    try:
        value = rule.formula(medians, base)
        moved = [
            rule.formula([*medians[:i], medians[i] + spread, *medians[i + 1 :]], base) - value
            for i, (_, spread, _) in enumerate(inputs)
        ]
    except ZeroDivisionError:
        return math.nan, math.nan
    return value, math.hypot(*moved)


def _fault(plain: Calibrated, value: float, spread: float, limits: Limits) -> str | None:
    bounds, least = limits.bounds[plain.constant], limits.least_spread_ns if plain.unit == "ns" else 0.0
    if not bounds.lower <= value <= bounds.upper:
        return f"expected {bounds.lower:g} to {bounds.upper:g}, received {value:.4g}"
    if spread > max(limits.most_spread_pct / 100 * abs(value), least):
        return f"expected a spread of at most {limits.most_spread_pct:g} %, received {value:.4g} \u00b1 {spread:.2g}"
    return None
