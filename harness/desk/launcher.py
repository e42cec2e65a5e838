"""How batches are started, as a command says it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from harness.core.fields import Count, Text, Unit, Within


@dataclass(frozen=True)
class Launcher:
    """Where and how batches run.

    Args:
        name: local: here and now; node: nothing runs, plans and all they need go into a folder for a node.
        jobs: batches at a time, where what they take does not depend on each other; on GPUs one runs at a time.
        timeout_s: of one batch that has no limit of its own.
        minutes: after which no batch is started any more; what is left is for the next run.
        out: folder of plans, records and reports; relative to the root of a checkout, or to the current folder.
        to: the folder for the node.
    """

    name: Literal["local", "node"]
    jobs: Count
    timeout_s: Annotated[int, Within(1), Unit("s")]
    minutes: Annotated[float, Within(0), Unit("min")]
    out: Annotated[str, Text("a folder")]
    to: Annotated[str, Text("a folder")]
