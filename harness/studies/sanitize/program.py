"""Exchanges under compute-sanitizer: each tool on the sound tree, and on one with a fault that it must report.

A few exchanges of 1A1F, called by the host and compared bit for bit, each rank under a tool of its own. A tool that
misses its own fault says nothing by its silence elsewhere.
"""

import importlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harness.core import launch, process
from harness.core.fields import ArmName, Unit, Within
from harness.core.plan import Plan
from harness.ranks.cells import Shape
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.study import Batch, Block, Edit, Ended, Said

BACKENDS = {"cuda": ("harness.studies.sanitize.device",)}
FINAL = (OK, FAILED)
JUDGES_ENDINGS = True

LAYOUT = "1A1F"
SOUND = "sound"
"""The name of the tree as it is."""
SILENCE = "silence"
LOG = "sanitizer.log"
"""What a tool writes, in the folder of its rank."""
GOOD = ("silent", "reported", "reported on the other rank")

_ERRORS_EXIT = 99
"""Exit code that a tool is told to take where it has reported an error."""
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
_ERROR_AT = re.compile(
    r"^=========(?!.*Frame:).*\bat (?:0x[0-9a-f]+ in )?(?!0x)(\S.*?)(?:\+0x[0-9a-f]+|$| in )", re.MULTILINE
)
"""Where a report places an error: memcheck in a line of its own, racecheck behind each of both accesses."""

Time = Annotated[float, Within(1, 86_400), Unit("s")]


@dataclass(frozen=True)
class Injected:
    """A fault for a tool to find.

    Args:
        tree: the name of the tree that has it.
        tool: that must report it.
        kernel: that it is in.
        what: it does, in words.
        edit: that injects it.
    """

    tree: str
    tool: str
    kernel: str
    what: str
    edit: Edit


_FILE = "vendor/elastic/copy_epilogue.cuh"
_LAST = "  if (e.expert_alignment > 1) copy_detail::pad_experts(e);\n  prim::bulk_wait();\n"
_OUT_OF_BOUNDS = """  if (prim::cta() == 0 && prim::warp() == 0)
    prim::elect([&] { prim::store(e.expert_counts + e.experts_per_rank, 0); });
"""
_UNORDERED = """  volatile int* injected = prim::shared<int>(200000);  // behind every slot of small rows
  prim::elect([&] { *injected = prim::warp(); });
"""
INJECTED = (
    Injected(
        "bounds",
        "memcheck",
        "copy_epilogue",
        "one thread writes a word just past the counts of experts",
        Edit(_FILE, _LAST, _LAST + _OUT_OF_BOUNDS),
    ),
    Injected(
        "shared",
        "racecheck",
        "copy_epilogue",
        "all warps of a CTA write their number into one word of shared memory, and none waits for another",
        Edit(_FILE, _LAST, _LAST + _UNORDERED),
    ),
)
BY_TREE = {one.tree: one for one in INJECTED}


@dataclass(frozen=True)
class Settings:
    """What is run.

    Args:
        arms: on the sound tree, under each tool.
        tools: of compute-sanitizer.
        shape: of the exchanges.
        timeout_s: of one wait on the device: under a tool everything is fifty to a hundred times slower.
        limit_s: of a run.
    """

    arms: tuple[ArmName, ...]
    tools: tuple[Literal["memcheck", "racecheck"], ...]
    shape: Shape
    timeout_s: Time
    limit_s: Time

    @property
    def grace_s(self) -> float:
        """A rank whose peer has ended may take as long as the run, for its tool's sake."""
        return self.limit_s


@dataclass(frozen=True)
class Trial:
    """One run of both ranks: the tool, the arm, and the tree by name."""

    tool: str
    arm: str
    tree: str = SOUND


@dataclass(frozen=True, kw_only=True)
class Sanitized(Envelope):
    """One rank of one run under a tool of compute-sanitizer.

    Args:
        version: of the tool, as it says.
        tool: memcheck or racecheck.
        tree: sound, or the name of the one with an injected fault.
        control: what the fault does; null in the sound tree.
        arm: canonical name.
        rank: of 1A1F, FFN first, each on a GPU of its own; null where nothing ran.
        expects: `silence`, or the kernel that the tool must report an error in.
        exchanges: compared bit for bit without a difference.
        errors: that the tool counts in its summary; null where it came to none.
        in_kernel: whether what it reports names the kernel that is expected.
        exit_code: of the tool; null where it was ended.
        said: the first lines that the tool said of errors, or an empty text.
    """

    table: ClassVar[str] = "sanitized"

    version: str = ""
    tool: str = ""
    tree: str = SOUND
    control: str | None = None
    arm: str = ""
    rank: int | None = None
    expects: str = SILENCE
    exchanges: int = 0
    errors: int | None = None
    in_kernel: bool = False
    exit_code: int | None = None
    said: str = ""


Record = Sanitized


def blocks(settings: Settings, done: Sequence[Sanitized]) -> Sequence[Block]:
    """Every tool on every arm of the sound tree, and each fault under its tool; one round."""
    trials = [Trial(tool, arm) for tool in settings.tools for arm in settings.arms]
    trials += [Trial(one.tool, "afdep", one.tree) for one in INJECTED if one.tool in settings.tools]
    return () if done else [Block(tuple(_batch(settings, one) for one in trials))]


def _batch(settings: Settings, trial: Trial) -> Batch:
    edits = (BY_TREE[trial.tree].edit,) if trial.tree in BY_TREE else ()
    command = ["compute-sanitizer", "--tool", trial.tool, "--target-processes", "all", "--log-file", LOG]
    command += ["--error-exitcode", str(_ERRORS_EXIT)]
    command += ["--report-api-errors", "no"] if trial.tool == "memcheck" else []
    return Batch(
        (trial,),
        "cuda",
        LAYOUT,
        edits=edits,
        ranks_per_gpu=1,
        tool=tuple(command),
        limit_s=settings.limit_s,
        expected_s=20.0,
    )


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Exchange, compare and say so."""
    found: Iterator[Said] = importlib.import_module(BACKENDS[batch.backend][0]).run(batch, group)
    return found


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Sanitized]:
    """One row a rank, once the tools have ended."""
    injected = BY_TREE.get(trial.tree)
    row = Sanitized(**vars(trial))
    if injected is not None:
        row = replace(row, control=injected.what, expects=injected.kernel)
    if ended.void:
        return [replace(row, status=VOID, reason=ended.void)]
    if ended.files is None:
        return []
    row = replace(row, version=version(batch.tool[0]))
    rows = [_of_rank(replace(row, rank=rank), rank, ended, ended.files) for rank in range(ended.num_ranks)]
    return [_with_status(one, rows, ended.endings.get(one.rank or 0)) for one in rows]


def _of_rank(row: Sanitized, rank: int, ended: Ended, files: Path) -> Sanitized:
    said, ending = ended.said.get(rank, {}), ended.endings.get(rank)
    log = process.tail(files / str(rank) / LOG) or process.tail(files / f"{rank}.stderr")
    code = re.match(r"exit code (\d+)", ending or "exit code 0")
    return replace(
        row,
        native_digest=said.get("digest"),
        exchanges=int(said.get("exchanges", 0)),
        errors=errors_in(log),
        in_kernel=reports_in(log, row.expects),
        exit_code=int(code[1]) if code else None,
        said=first_lines(log),
        reason=said.get("failed"),
    )


def _with_status(row: Sanitized, rows: Sequence[Sanitized], ending: str | None) -> Sanitized:
    word = outcome(row, rows)
    if word in GOOD:
        return replace(row, reason=None)
    why = "; ".join(filter(None, (word, row.reason, ending)))
    return replace(row, status=FAILED, reason=why)


def outcome(row: Sanitized, rows: Sequence[Sanitized]) -> str:
    """What came of a rank's run, in words, with the other ranks' of the same run."""
    is_sound, reported = row.expects == SILENCE, [one.rank for one in rows if one.errors and one.in_kernel]
    words = {
        "not run": row.status == VOID,
        "ended for its limit": row.exit_code is None,
        "no summary of the tool": row.errors is None,
        "FAILED": is_sound and (row.errors or row.exit_code),
        "silent": is_sound and row.exchanges,
        "no exchange compared": is_sound,
        "reported": row.rank in reported,
        "reported on the other rank": reported,
        "NOT reported": True,
    }
    return next(word for word, holds in words.items() if holds)


def errors_in(log: str) -> int | None:
    """What the tool counts in its summary."""
    found = _SUMMARY.search(log)
    return None if found is None else int(found[1] or found[2])


def reports_in(log: str, kernel: str) -> bool:
    """Whether the tool places an error in this kernel: what else its log names, such as frames, says nothing."""
    named = re.compile(rf"(?:^|[\s:]){re.escape(kernel)}(?:$|[(<])")
    return any(named.search(place) for place in _ERROR_AT.findall(log))


def first_lines(log: str) -> str:
    """What the tool said first of errors, without its margin."""
    lines = [line.removeprefix("=========").strip() for line in log.splitlines() if line.startswith("===")]
    told = [line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "Target application"))]
    return "\n".join(line for line in told if not _SUMMARY.search(line))[:600] if errors_in(log) != 0 else ""


@cache
def version(tool: str) -> str:
    """What a tool of this machine says it is, in one line."""
    command = [launch.place_of(tool, os.environ) or "true", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next((line.strip() for line in said.splitlines() if "ersion" in line), "unknown")


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    return f"{trial.tool} {trial.arm} {trial.tree}"
