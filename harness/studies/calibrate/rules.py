"""From readings to constants, by the definitions that the simulator goes by (vendor/simgpu/machine.hpp).

Medians go through the rules; a constant that no reading gives stays, and a value that cannot be is void.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from afdep import Machine
from afdep.machine import Constant
from harness.records.envelope import OK, VOID
from harness.studies.calibrate.program import Limits, Record

Formula = Callable[[Sequence[float], Mapping[str, float]], float]


@dataclass(frozen=True)
class Place:
    """Where a reading stands, as the probes print it."""

    probe: str
    variant: str
    ctas: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        numbers = [f"{number:,}" for number in (self.ctas, self.bytes) if number]
        return " ".join([self.probe, self.variant, *numbers])


@dataclass(frozen=True)
class Rule:
    """How a constant follows.

    Args:
        constant: its name.
        places: the readings it follows from.
        formula: their medians, in that order, and the base machine's constants to the value.
        group: the group of probes that the first reading is of; a group that failed makes the constant void.
        meaning: what was measured, for the page.
    """

    constant: str
    group: str
    places: tuple[Place, ...]
    meaning: str
    formula: Formula = lambda medians, base: medians[0]


WARPS = (4, 8, 16, 32)
_BARRIERS = tuple(Place("cta_barrier", "warps", warps) for warps in WARPS)
_POLL, _STORE = Place("word", "relaxed"), Place("store", "burst")
_FLAG, _ORDERED = Place("flag", "relaxed"), Place("flag", "ordered")
_NEAR, _MEAN = Place("latency", "l2_low"), Place("latency", "l2_mean")
_TURN, _PERIOD = Place("cta_turn", "same_sm"), Place("graph_period", "plain", 24)
_ROW = 4096


def _message_ns(medians: Sequence[float], base: Mapping[str, float]) -> float:
    """What a message costs a port beside its bytes; a rate that grows with short messages by a hair is none."""
    brief, whole = 512 / medians[0], _ROW / medians[1]
    cost = brief - 512 * (whole - brief) / (_ROW - 512)
    return 0.0 if -0.1 < cost < 0 else cost


_RULES = (
    Rule(
        "graph_gap_ns", "launch", (_PERIOD, _TURN), "period of empty kernels in a graph, CTA start and drain taken off",
        lambda m, base: m[0] - m[1] - base["kernel_drain_ns"],
    ),
    Rule(
        "cooperative_launch_ns", "launch", (Place("graph_period", "cooperative", 24), _PERIOD),
        "period of cooperative kernels above that of plain ones", lambda m, base: m[0] - m[1],
    ),
    Rule(
        "pdl_launch_ns", "launch", (Place("programmatic", "trigger_to_begin", 24), _TURN),
        "last trigger to last first instruction, CTA start taken off", lambda m, base: m[0] - m[1],
    ),
    Rule(
        "pdl_release_ns", "launch", (Place("programmatic", "end_to_release", 24),),
        "predecessor's last instruction to griddepcontrol.wait over, drain taken off",
        lambda m, base: m[0] - base["kernel_drain_ns"],
    ),
    Rule(
        "code_ns", "first_use", (Place("code", "four_in_turn", 24, 16384),),
        "first pass over 16 KB of code less the second, in four kernels that take turns",
    ),
    Rule("cta_start_ns", "launch", (_TURN,), "a CTA's end to the next one's first instruction on its SM"),
    Rule(
        "nvlink_latency_ns", "link", (_FLAG, _POLL, _STORE), "relaxed flag one way, poll and store taken off",
        lambda m, base: m[0] - m[1] - m[2],
    ),
    Rule("nvlink_gb_per_s", "link", (Place("push", "bulk", 24, _ROW),), "bulk copies of 4 KB from 24 CTAs"),
    Rule(
        "nvlink_message_ns", "link", (Place("push", "bulk", 132, 512), Place("push", "bulk", 132, _ROW)),
        "bulk copies of 512 bytes beside 4 KB, 132 CTAs",
        _message_ns,
    ),
    Rule("l2_latency_ns", "memory", (_NEAR,), "dependent loads of 16 MB, 10th percentile"),
    Rule("hbm_latency_ns", "memory", (Place("latency", "hbm_low"),), "dependent loads of 256 MB, 10th percentile"),
    Rule(
        "latency_spread", "memory", (_MEAN, _NEAR), "mean above the 10th percentile, of loads that hit L2 alone",
        lambda m, base: m[0] / m[1] - 1,
    ),
    Rule("l2_gb_per_s", "memory", (Place("device", "l2_read", 264, 512),), "all SMs read 16 MB again and again"),
    Rule("hbm_gb_per_s", "memory", (Place("device", "hbm_copy", 264),), "all SMs copy; bytes read and written"),
    Rule(
        "sm_load_gb_per_s", "memory", (Place("sm_load", "hbm_full_shared", 24, 512),),
        "24 CTAs of 32 warps that take all shared memory, 8 rows of 512 bytes in flight, from HBM",
    ),
    Rule(
        "sm_load_l1_gb_per_s", "memory", (Place("sm_load", "hbm", 24, 512),),
        "24 CTAs of 32 warps that leave L1 its room, 8 rows of 512 bytes in flight, from HBM",
    ),
    Rule("bulk_gb_per_s", "memory", (Place("sm_bulk", "hbm", 24, _ROW),), "24 CTAs, 48 rows of 4 KB in flight"),
    Rule("bulk_issue_ns", "memory", (Place("bulk_once", "issue", 1, 512),), "eight bulk loads issued in a row"),
    Rule(
        "bulk_latency_ns", "memory",
        (
            Place("bulk_once", "whole", 1, 512), Place("bulk_once", "issue", 1, 512), _MEAN, Place("shared", "load"),
            Place("sm_bulk", "l2", 1, _ROW),
        ),
        "one bulk load of 512 bytes; issue, L2, shared memory and its bytes taken off",
        lambda m, base: m[0] - m[1] - m[2] - m[3] - 512 / m[4],
    ),
    Rule("accumulate_ns", "core", (Place("accumulate", "warps", 32),), "each of 32 warps of an SM adds a column"),
    Rule("atomic_ns", "core", (Place("atomic", "one_word", 24),), "24 CTAs add to one word and await each old value"),
    Rule("acquire_ns", "core", (Place("word", "acquire"),), "system-scope acquire load that hits L2"),
    Rule("poll_ns", "core", (_POLL,), "period of relaxed polls: half until one sees the word, half for its way back"),
    Rule(
        "fence_ns", "link", (_ORDERED, _FLAG), "what release and acquire add to a flag one way",
        lambda m, base: m[0] - m[1],
    ),
    Rule(
        "cta_barrier_ns", "core", _BARRIERS, "bar.sync of 4 to 32 warps: start",
        lambda m, base: float(np.polyfit(WARPS, m, 1)[1]),
    ),
    Rule(
        "warp_barrier_ns", "core", _BARRIERS, "bar.sync of 4 to 32 warps: slope",
        lambda m, base: float(np.polyfit(WARPS, m, 1)[0]),
    ),
    Rule("grid_sync_ns", "launch", (Place("grid_sync", "cooperative", 24),), "grid barrier, 24 CTAs of 1,024 threads"),
    Rule("syncwarp_ns", "core", (Place("syncwarp", "warp"),), "bar.warp.sync"),
    Rule("shuffle_ns", "core", (Place("shuffle", "warp"),), "dependent shuffles"),
    Rule("shared_ns", "core", (Place("shared", "load"),), "dependent loads of shared memory"),
    Rule("store_ns", "core", (_STORE,), "sixteen stores issued in a row"),
    *(
        Rule(name, "core", (Place("attribute", name),), "attribute of the device")
        for name in ("sm_count", "threads_per_sm", "shared_bytes_per_sm", "shared_bytes_per_cta")
    ),
)  # fmt: skip
RULE_OF = {rule.constant: rule for rule in _RULES}

MEASURED, KEPT = "measured", "kept"
"""What became of a constant beside `void`: a probe gave its value; no reading gives one, and the base's stays."""


@dataclass(frozen=True)
class Calibrated:
    """What became of one constant of a machine description.

    Args:
        base: the constant in the machine description that was the base.
        probe: the readings that it follows from; empty where none gives it.
        outcome: `measured`, `void` or `kept`.
        reason: why it is void or kept, or None.
        value: what was measured, also where it is void; None where nothing was.
        spread: half the distance from the 10th to the 90th percentile, carried through; None as the value.
        samples: of the reading that has fewest; 0 without any.
    """

    base: Constant
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


def judge(machine: Machine, readings: Sequence[Record], limits: Limits) -> tuple[Calibrated, ...]:
    """Every constant of a machine description, in its order, as the readings have it."""
    read = [one for one in readings if one.status == OK and one.samples]
    found = {Place(one.probe, one.variant, one.ctas, one.bytes): summarised(one.samples) for one in read}
    reasons = {one.probe: str(one.reason) for one in reversed(readings) if one.status != OK}
    return tuple(_judged(one, machine.constants(), found, reasons, limits) for one in machine.table)


def _judged(
    base: Constant,
    values: Mapping[str, float],
    found: Mapping[Place, Summary],
    reasons: Mapping[str, str],
    limits: Limits,
) -> Calibrated:
    rule = RULE_OF.get(base.name)
    if rule is None:
        return Calibrated(base, reason="no probe measures it")
    probe = "; ".join(map(str, rule.places))
    missing = [place for place in rule.places if place not in found]
    if missing:
        reason = reasons.get(missing[0].probe) or reasons.get(rule.group)
        return Calibrated(base, probe, VOID if reason else KEPT, reason or f"no reading of {missing[0]}")
    inputs = [found[place] for place in rule.places]
    value, spread = _carried_through(rule, inputs, values)
    fault = _fault(base, value, spread, limits)
    samples = min(size for _, _, size in inputs)
    return Calibrated(base, probe, VOID if fault else MEASURED, fault, value, spread, samples)


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


def _fault(base: Constant, value: float, spread: float, limits: Limits) -> str | None:
    bounds, least = limits.bounds[base.name], limits.least_spread_ns if base.unit == "ns" else 0.0
    if not bounds.lower <= value <= bounds.upper:
        return f"expected {bounds.lower:g} to {bounds.upper:g}, received {value:.4g}"
    if spread > max(limits.most_spread_pct / 100 * abs(value), least):
        return f"expected a spread of at most {limits.most_spread_pct:g} %, received {value:.4g} \u00b1 {spread:.2g}"
    return None
