"""One rank of a company: `python -m tests.device.player FOLDER MODULE SCENARIO...`, started by tests.device.company."""

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afdep import Layout
from afdep.cuda import Buffer

SHAPE: dict[str, Any] = {"hidden": 256, "num_experts": 16, "top_k": 4, "capacity": 64}
TIMES: dict[str, Any] = {"timeout_s": 2.0, "first_timeout_s": 20.0}


class Stage:
    """What a scenario plays on.

    Args:
        folder: what ranks leave for each other, and for the test.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ["GPU"]) % torch.cuda.device_count())
        dist.init_process_group("gloo", timeout=timedelta(seconds=100))
        self._groups: dict[int, Any] = {size: dist.new_group(list(range(size))) for size in range(2, self.size)}
        self._groups[self.size] = None

    def buffer(self, layout: str = "1A1F", **changes: Any) -> Buffer:
        """A small Buffer with short time-outs among the first ranks of the company."""
        group = self._groups[Layout.parse(layout).num_ranks]
        return Buffer(group, layout=layout, **(SHAPE | TIMES | changes))

    def plays(self, layout: str) -> bool:
        """Whether this rank is one of the layout's."""
        return self.rank < Layout.parse(layout).num_ranks

    def barrier(self) -> None:
        """Meet the hosts of all ranks of the company."""
        dist.barrier()

    def leave(self, name: str) -> None:
        """Tell the others, at a time of the machine's clock, that something has happened."""
        (self.folder / f"{name}.new").write_text(str(time.monotonic()))
        (self.folder / f"{name}.new").replace(self.folder / name)

    def found(self, name: str) -> float | None:
        """When a rank said so, if one did."""
        with suppress(FileNotFoundError):
            return float((self.folder / name).read_text())
        return None

    def wait_for(self, name: str, at_most_s: float) -> None:
        """Sleep until a rank says so, or so long."""
        ended = time.monotonic() + at_most_s
        while self.found(name) is None and time.monotonic() < ended:
            time.sleep(0.05)


def raised(action: Callable[[], Any]) -> str:
    """What an action raises, as `Class: text`, or `ok`."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


def main(folder: Path, module: str, scenarios: list[str]) -> int:
    """Play every scenario and report it; 1 if one failed here."""
    stage, failed = Stage(folder), 0
    script = importlib.import_module(f"tests.device.{module}")
    for name in scenarios:
        if failed and script.ENDS_WITH_A_FAILURE:
            break
        stage.barrier()
        report = _play(getattr(script, name), stage)
        failed |= int(report["error"] is not None)
        with (folder / f"{stage.rank}.reports").open("a") as reports:
            reports.write(json.dumps({"scenario": name, **report}) + "\n")
    return failed


def _play(scenario: Callable[[Stage], Any], stage: Stage) -> dict[str, Any]:
    started = time.monotonic()
    value = error = None
    try:
        value = scenario(stage)
    except Exception as problem:
        traceback.print_exc()
        error = f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
    return {"error": error, "value": value, "seconds": time.monotonic() - started}


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a peer may be gone, and never take part in a tear-down
