"""What runs on this machine, and waiting until it does not."""

import time
from pathlib import Path

PATIENCE_S = 20.0


def wait_until(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[int]:
    """Processes whose working folder lies under `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
