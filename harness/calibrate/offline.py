"""Measures this machine without Hydra or a compiler: `python -P -m harness.calibrate.offline FOLDER`.

A bundle's command `calibrate` does so. It leaves the readings in a new folder below FOLDER; the verb `calibrate` makes
constants of them elsewhere, with `source=` that folder.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from afdep.errors import AfdepError
from harness.calibrate import program
from harness.calibrate.device import measure, runner
from harness.errors import HarnessError
from harness.leaving import leave
from harness.records.calibrations import write_measurement

_FAILED = 4


def main(out: Path) -> int:
    """Measure, and leave the readings in `out`/calibration-TIME."""
    started = time.monotonic()
    run = runner(program.build())
    found = measure(run, "./calibrate", program.probes_hash(), lambda: datetime.now(UTC))
    folder = write_measurement(out / f"calibration-{datetime.now(UTC):%Y%m%dT%H%M%S}", found)
    voids = sorted({f"{one.probe}: {one.void}" for one in found.readings if one.void is not None})
    seconds = time.monotonic() - started
    for line in (*voids, f"{len(found.readings)} readings in {seconds:.0f} s: {folder}"):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    try:
        leave(main(Path(sys.argv[1])))
    except (HarnessError, AfdepError) as error:
        print(error, file=sys.stderr)
        leave(_FAILED)
