"""From readings to constants: medians through the rules; what no reading gives is kept, what cannot be is void."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from afdep import Machine
from afdep.machine import Constant
from harness.calibrate.rules import RULES, Place, Rule
from harness.records.calibrations import KEPT, MEASURED, VOID, CalibrationConstant, CalibrationReading

RULE_OF = {rule.constant: rule for rule in RULES}


@dataclass(frozen=True)
class Limits:
    """What a measured constant must keep.

    Args:
        bounds: lowest and highest value that can be, by constant.
        most_spread_pct: of the value; a wider spread makes it void.
        least_spread_ns: of a constant in ns, a spread below this is never too wide.
    """

    bounds: Mapping[str, tuple[float, float]]
    most_spread_pct: float
    least_spread_ns: float


@dataclass(frozen=True)
class Reading:
    """A reading's median, spread and number of samples."""

    median: float
    spread: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Reading":
        low, middle, high = np.percentile(samples, (10, 50, 90))
        return cls(float(middle), float(high - low) / 2, len(samples))


def judge(machine: Machine, readings: Sequence[CalibrationReading], limits: Limits) -> tuple[CalibrationConstant, ...]:
    """Every constant of a machine file, in its order, as the readings have it."""
    found = {_place(one): Reading.of(one.samples) for one in readings if one.void is None and one.samples}
    reasons = {one.probe: one.void for one in reversed(readings) if one.void is not None}
    return tuple(_judged(one, machine.constants(), found, reasons, limits) for one in machine.table)


def _place(one: CalibrationReading) -> Place:
    return Place(one.probe, one.variant, one.ctas, one.bytes)


def _judged(
    one: Constant,
    base: Mapping[str, float],
    found: Mapping[Place, Reading],
    reasons: Mapping[str, str],
    limits: Limits,
) -> CalibrationConstant:
    rule = RULE_OF.get(one.name)
    if rule is None:
        return _outcome(one, "", KEPT, "no probe measures it")
    probe = "; ".join(map(str, rule.places))
    missing = [place for place in rule.places if place not in found]
    if missing:
        reason = reasons.get(missing[0].probe) or reasons.get(rule.group)
        return _outcome(one, probe, VOID if reason else KEPT, reason or f"no reading of {missing[0]}")
    inputs = [found[place] for place in rule.places]
    value, spread = _carried_through(rule, inputs, base)
    samples = min(reading.samples for reading in inputs)
    if not math.isfinite(value) or not math.isfinite(spread):
        return _outcome(one, probe, VOID, f"its readings give {value}")
    fault = _fault(one, value, spread, limits)
    return _outcome(one, probe, VOID if fault else MEASURED, fault, value, spread, samples)


def _carried_through(rule: Rule, inputs: Sequence[Reading], base: Mapping[str, float]) -> tuple[float, float]:
    """The value, and its spread: how far each reading's spread moves it, as the root of the sum of squares."""
    medians = [reading.median for reading in inputs]
    try:
        value = rule.formula(medians, base)
        moved = [
            rule.formula([*medians[:i], medians[i] + reading.spread, *medians[i + 1 :]], base) - value
            for i, reading in enumerate(inputs)
        ]
    except ZeroDivisionError:
        return math.nan, math.nan
    return value, math.hypot(*moved)


def _fault(one: Constant, value: float, spread: float, limits: Limits) -> str | None:
    lower, upper = limits.bounds[one.name]
    if not lower <= value <= upper:
        return f"expected {lower:g} to {upper:g}, received {value:.4g}"
    least = limits.least_spread_ns if one.unit == "ns" else 0.0
    if spread > max(limits.most_spread_pct / 100 * abs(value), least):
        return f"expected a spread of at most {limits.most_spread_pct:g} %, received {value:.4g} \u00b1 {spread:.2g}"
    return None


def _outcome(
    one: Constant,
    probe: str,
    status: str,
    reason: str | None,
    value: float | None = None,
    spread: float | None = None,
    samples: int = 0,
) -> CalibrationConstant:
    return CalibrationConstant(
        constant=one.name,
        unit=one.unit,
        probe=probe,
        status=status,
        base=one.value,
        base_source=one.source,
        value=value,
        spread=spread,
        samples=samples,
        reason=reason,
    )
