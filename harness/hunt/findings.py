"""What is said of a finding: how it fails, the command that replays it, and what its kernels did."""

import dataclasses
import shlex

from afdep import DeadlockError, KernelTime
from afdep.proof.hunt import Finding
from afdep.proof.scenario import Hunt

_NOT_KEYS = ("arm", "library")


def replay_command(hunt: Hunt, seed: int) -> str:
    """The command that runs one seed of a hunt; fields as `conf/hunt/small.yaml` has them are left out."""
    usual = dataclasses.asdict(Hunt.small(hunt.arm))
    fields = {name: value for name, value in dataclasses.asdict(hunt).items() if name not in _NOT_KEYS}
    changed = [f"hunt.{name}={_text(value)}" for name, value in fields.items() if value != usual[name]]
    words = [f"arm=['{hunt.arm}']" if "[" in hunt.arm else f"arm=[{hunt.arm}]", f"seeds=[{seed}]", "jobs=1", *changed]
    return shlex.join(["python", "-m", "harness", "hunt", *words])


def lines(hunt: Hunt, finding: Finding) -> list[str]:
    """The finding, how to replay it, the waits that cannot end, and when the kernels of each exchange ran."""
    waits = finding.error.waits if isinstance(finding.error, DeadlockError) else []
    return [
        str(finding),
        f"  replay: {replay_command(hunt, finding.seed)}",
        *(f"  blocked: {wait}" for wait in waits),
        *(f"  {line}" for line in trace_lines(finding.kernels)),
    ]


def trace_lines(kernels: tuple[KernelTime, ...]) -> list[str]:
    """One line for each Buffer and exchange: its kernels in simulated us, in order of completion."""
    rows: dict[tuple[int, int, int], list[str]] = {}
    for kernel in kernels:
        times = f"{kernel.name} {kernel.start_us:.1f}..{kernel.end_us:.1f}"
        rows.setdefault((kernel.buffers, kernel.exchange, kernel.rank), []).append(times)
    return [
        f"exchange {exchange} rank {rank}{' second Buffer' if buffers else ''}, us: {', '.join(times)}"
        for (buffers, exchange, rank), times in sorted(rows.items())
    ]


def _text(value: object) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
