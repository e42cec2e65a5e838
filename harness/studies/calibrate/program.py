"""Calibrations: micro-benchmarks of this machine's GPUs, whose readings give constants of the simulated machine.

One process runs the groups of probes in turn, each as a process of the built program. What the readings amount to is
judged where the report is made; a plan holds the machine description and the limits that they are judged by.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from afdep import Machine
from harness.core.fields import Number
from harness.core.plan import Plan
from harness.records.envelope import OK, VOID, Envelope
from harness.studies.calibrate import probes
from harness.study import Batch, Block, Ended, Said, VoidError

GROUP = "harness.ranks.group"
carry = probes.build


@dataclass(frozen=True)
class Bounds:
    """What a constant can be at all.

    Args:
        lower, upper: bounds of its value.
    """

    lower: float
    upper: float


@dataclass(frozen=True)
class Limits:
    """What a measured constant must keep to count.

    Args:
        most_spread_pct: of the value; a wider spread makes it void.
        least_spread_ns: of a constant in ns; a spread below this is never too wide.
        bounds: by constant.
    """

    most_spread_pct: Number
    least_spread_ns: Number
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True)
class Settings:
    """A calibration.

    Args:
        base: the machine description whose constants stay where nothing measures them.
        limits: what a measured constant must keep.
        probes_hash: of the probes' sources.
    """

    base: Machine
    limits: Limits
    probes_hash: str


@dataclass(frozen=True)
class Trial:
    """A group of probes."""

    group: str


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """What a probe read, or why it or its group did not.

    Args:
        probes_hash: of the probes' sources.
        gpus: how many the machine showed.
        cuda_driver, cuda_runtime: as the CUDA API numbers them.
        most_sm_mhz, memory_mhz: clocks that the device is made for; what an SM ran at is a reading.
        probe, variant: what was measured, and how; a group that did not come to its end is a probe too.
        ctas: CTAs, or warps where the probe is of one CTA; 0 where that has no meaning.
        bytes: of a row or message; 0 where that has no meaning.
        unit: of the samples.
        samples: in the order they were taken; none of a void probe.
    """

    table: ClassVar[str] = "readings"
    probes_hash: str = ""
    gpus: int | None = None
    cuda_driver: int | None = None
    cuda_runtime: int | None = None
    most_sm_mhz: float | None = None
    memory_mhz: float | None = None
    probe: str = ""
    variant: str = ""
    ctas: int = 0
    bytes: int = 0
    unit: str = ""
    samples: tuple[float, ...] = ()


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """One process for all groups, which count together: they describe one machine at one time."""
    batch = Batch(tuple(map(Trial, probes.GROUPS)), "cuda", expected_s=60.0)
    return () if done else (Block((batch,), on_loss="void"),)


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run each group of probes.

    Raises:
        VoidError: no GPU, or other probes than the plan's.
        BuildError: the probes do not compile.
    """
    if probes.probes_hash() != group.settings.probes_hash:
        raise VoidError(f"probes changed since the plan: {group.settings.probes_hash} planned")
    program = probes.build()
    group.turn()
    for index, trial in enumerate(batch.trials):
        found = probes.run(program, trial.group)
        group.session.opened(driver=probes.driver(), **next((one for one in found if "device" in one), {}))
        yield Said(index, {"readings": [one for one in found if "probe" in one]})


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """A row for each reading, and for each probe or group that gave none."""
    nothing: list[dict[str, Any]] = [{"probe": trial.group, "void": ended.reason or "it printed nothing"}]
    shared: dict[str, Any] = {name: ended.opened.get(0, {}).get(name) for name in probes.MACHINE if name != "device"}
    return [
        Record(
            status=OK if "void" not in one else ended.status if ended.status != OK else VOID,
            reason=one.get("void"),
            probes_hash=plan.settings.probes_hash,
            samples=tuple(one.get("samples", ())),
            **shared,
            **{name: one[name] for name in ("probe", "variant", "ctas", "bytes", "unit") if name in one},
        )
        for one in ended.said.get(0, {}).get("readings") or nothing
    ]
