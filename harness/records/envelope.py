"""What every record says, whatever was run: the first columns of each study's first table."""

from dataclasses import dataclass
from typing import ClassVar

OK, FAILED, VOID = "ok", "failed", "void"
STATUSES = (OK, FAILED, VOID)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of any table.

    A field that may be None is nullable. A figure is finite; those in `positive` are above zero.
    """

    table: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, kw_only=True)
class Envelope(Row):
    """Where a row comes from and whether it counts.

    Args:
        study: that ran.
        plan_hash: of its plan.
        key: of the trial: plan, trial and tree; every row of a trial has it.
        round: of the plan, from 0.
        block: of the round; what one allocation holds.
        batch: of the block; what one start of processes ran.
        attempt: of this trial, from 1.
        run: the command that measured it, by a random name.
        command: as it was typed.
        created: when the row was written, in UTC.
        status: ok, failed or void.
        reason: why it is not ok, else null.
        backend: sim or cuda.
        machine: a machine description of the simulator, or the GPUs by name.
        native_digest: of the native sources of the tree, as planned.
        code_digest: of the compiled code that ran; null where none was loaded.
        library_digest: of the Python files of the measured library.
        measuring_digest: of the Python files of the harness that measured.
        machine_digest: of the constants of the simulated machine; null on GPUs.
        host: ordinal of the machine in its run.
        gpu_uuid, driver, torch, compiler: of the process; null where it has none.
        affinity: how many processors it might use.
        sm_mhz: clock of an SM before and after, in MHz; null without a GPU.
        throttle: reasons why the GPU ran slower, as the driver says; null without a GPU.
        seconds: that the process took.
    """

    study: str = ""
    plan_hash: str = ""
    key: str = ""
    round: int = 0
    block: int = 0
    batch: int = 0
    attempt: int = 1
    run: str = ""
    command: str = ""
    created: str = ""
    status: str = OK
    reason: str | None = None
    backend: str = ""
    machine: str = ""
    native_digest: str | None = None
    code_digest: str | None = None
    library_digest: str | None = None
    measuring_digest: str | None = None
    machine_digest: str | None = None
    host: int = 0
    gpu_uuid: str | None = None
    driver: str | None = None
    torch: str | None = None
    compiler: str | None = None
    affinity: int | None = None
    sm_mhz: tuple[float, ...] | None = None
    throttle: str | None = None
    seconds: float | None = None
