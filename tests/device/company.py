"""A company of rank processes that plays scenarios in turn; one start of its processes serves all of them."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Company:
    """What is played.

    Args:
        module: of tests.device, that holds the scenarios.
        scenarios: in the order they are played.
        ranks: how many processes.
        gpus: the GPU of each rank; by default one each, in turn.
        environs: what each rank's environment holds beside the usual.
        limit_s: when a rank is ended that still plays.
    """

    module: str
    scenarios: Sequence[str]
    ranks: int = 2
    gpus: Sequence[int] | None = None
    environs: Sequence[Mapping[str, str]] = ()
    limit_s: float = 75.0


@dataclass(frozen=True)
class Played:
    """What came of it.

    Args:
        reports: by scenario and rank: `error` (class and first line, or None), `value` and `seconds`.
        exits: exit codes, by rank; None for a rank that was ended for its limit.
        log: the end of what each rank wrote.
    """

    reports: Mapping[str, Mapping[int, Mapping[str, Any]]]
    exits: Sequence[int | None]
    log: str

    def report(self, scenario: str, rank: int) -> Mapping[str, Any]:
        """What a rank reported of a scenario; fails with the log where it reported nothing."""
        assert rank in self.reports.get(scenario, {}), f"rank {rank} left nothing of {scenario}:\n{self.log}"
        return self.reports[scenario][rank]

    def error(self, scenario: str, rank: int) -> str:
        """What a rank raised, `ok` where nothing."""
        return self.report(scenario, rank)["error"] or "ok"

    def value(self, scenario: str, rank: int) -> Any:
        """What a rank returned from a scenario that it played to its end."""
        assert self.error(scenario, rank) == "ok", self.error(scenario, rank)
        return self.report(scenario, rank)["value"]


class Running:
    """A company whose processes have been started."""

    def __init__(self, company: Company):
        self._company = company
        self._folder = Path(tempfile.mkdtemp(prefix="company-"))
        self._started = time.monotonic()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self._processes = [self._start(rank, port) for rank in range(company.ranks)]

    def _start(self, rank: int, port: int) -> "subprocess.Popen[bytes]":
        company = self._company
        place = {
            "RANK": str(rank),
            "WORLD_SIZE": str(company.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        gpu = company.gpus[rank] if company.gpus is not None else rank
        own = {"GPU": str(gpu), "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "PYTHONPATH": str(ROOT)}
        with (self._folder / f"{rank}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.device.player", str(self._folder), company.module, *company.scenarios],
                env={**os.environ, **(company.environs[rank] if company.environs else {}), **place, **own},
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> Played:
        """Wait for every rank, end those that outlive the limit, and read what they left."""
        exits: list[int | None] = []
        for process in self._processes:
            left = self._started + self._company.limit_s - time.monotonic()
            try:
                exits.append(process.wait(max(left, 0.1)))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                exits.append(None)
        logs = [(self._folder / f"{rank}.log").read_text(errors="replace")[-3000:] for rank in range(len(exits))]
        return Played(self._reports(), exits, "\n".join(f"--- rank {rank}\n{log}" for rank, log in enumerate(logs)))

    def _reports(self) -> dict[str, dict[int, dict[str, Any]]]:
        reports: dict[str, dict[int, dict[str, Any]]] = {}
        for rank in range(self._company.ranks):
            with suppress(FileNotFoundError):
                for line in (self._folder / f"{rank}.reports").read_text().splitlines():
                    report = json.loads(line)
                    reports.setdefault(report["scenario"], {})[rank] = report
        return reports
