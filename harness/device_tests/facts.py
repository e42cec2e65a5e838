"""What a node says of itself before its tests run: `python -m harness.device_tests.facts FILE`, as `./tests` does."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from afdep import build
from afdep.errors import AfdepError
from harness.decode import decode
from harness.digests import harness_digest
from harness.errors import HarnessError, PlacementError
from harness.leaving import leave
from harness.validation.on_gpus import Gpus, found
from harness.workspace import REPOSITORY

FACTS, JUNIT = "facts.json", "junit.xml"
"""What a run leaves."""

LEAST_GPUS = 2
"""The tests place ranks on two."""

_FAILED = 4


@dataclass(frozen=True)
class Facts:
    """Of a run: when it began in UTC, the harness, what the carried library says it is, and the GPUs."""

    created: str
    harness_digest: str
    native_digest: str
    machine: str
    gpus: int


def main(words: Sequence[str], gpus: Gpus | str) -> int:
    """Write the facts of this machine and tree; what an earlier run has left there of its tests goes.

    Raises:
        PlacementError: it has too few GPUs for the tests.
        BuildError: the tree carries no library, or none of ours.
    """
    if isinstance(gpus, str) or gpus.count < LEAST_GPUS:
        received = f"none ({gpus})" if isinstance(gpus, str) else gpus.count
        raise PlacementError(
            f"tests: expected {LEAST_GPUS} GPUs, received {received}.", "Run them on a node with two GPUs or more."
        )
    digest = str(build.build_info(build.carried(REPOSITORY))["digest"])
    now = datetime.now(UTC).isoformat(timespec="seconds")
    facts = Facts(now, harness_digest(REPOSITORY), digest, gpus.name, gpus.count)
    path = Path(words[0])
    path.with_name(JUNIT).unlink(missing_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(facts)) + "\n", encoding="utf-8")
    return 0


def read(path: Path) -> Facts:
    """The facts of a file."""
    return decode(Facts, json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    try:
        leave(main(sys.argv[1:], found()))
    except (HarnessError, AfdepError) as error:
        print(error, file=sys.stderr)
        leave(_FAILED)
