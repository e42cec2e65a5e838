"""Exchanges under compute-sanitizer: each tool on the sound tree, and on one with a fault that it must report.

A few exchanges of 1A1F, called by the host and compared bit for bit, each rank under a tool of its own. A tool that
misses its own fault says nothing by its silence elsewhere.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.core import launch, process
from harness.core.fields import ArmName, Limit
from harness.core.plan import Plan
from harness.ranks import loads
from harness.ranks.cells import Shape
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.study import Batch, Block, Edit, Ended, Said

FINAL = (OK, FAILED)
JUDGES_ENDINGS = True

SOUND = "sound"
"""The name of the tree as it is."""
SILENCE = "silence"
LOG = "sanitizer.log"
"""What a tool writes, in the folder of its rank."""
GOOD = ("silent", "reported", "reported on the other rank")

_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
_ERROR_AT = re.compile(
    r"^=========(?!.*Frame:).*\bat (?:0x[0-9a-f]+ in )?(?!0x)(\S.*?)(?:\+0x[0-9a-f]+|$| in )", re.MULTILINE
)
"""Where a report places an error: memcheck in a line of its own, racecheck behind each of both accesses."""
_NOT_OF_ERRORS = ("COMPUTE-SANITIZER", "Target application")


@dataclass(frozen=True)
class Injected:
    """A fault for a tool to find.

    Args:
        tool: that must report it.
        kernel: that it is in.
        what: it does, in words.
        edit: that injects it.
    """

    tool: str
    kernel: str
    what: str
    edit: Edit


_LAST = "  if (e.expert_alignment > 1) copy_detail::pad_experts(e);\n  prim::bulk_wait();\n"
_OUT_OF_BOUNDS = """  if (prim::cta() == 0 && prim::warp() == 0)
    prim::elect([&] { prim::store(e.expert_counts + e.experts_per_rank, 0); });
"""
_UNORDERED = """  volatile int* injected = prim::shared<int>(200000);  // behind every slot of small rows
  prim::elect([&] { *injected = prim::warp(); });
"""
INJECTED = {
    "bounds": Injected(
        "memcheck",
        "copy_epilogue",
        "one thread writes a word just past the counts of experts",
        Edit("vendor/elastic/copy_epilogue.cuh", _LAST, _LAST + _OUT_OF_BOUNDS),
    ),
    "shared": Injected(
        "racecheck",
        "copy_epilogue",
        "all warps of a CTA write their number into one word of shared memory, and none waits for another",
        Edit("vendor/elastic/copy_epilogue.cuh", _LAST, _LAST + _UNORDERED),
    ),
}
"""By the name of the tree that has it."""


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
    timeout_s: Limit
    limit_s: Limit

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
class Record(Envelope):
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


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """Every tool on every arm of the sound tree, and each fault under its tool; one round."""
    trials = (
        *(Trial(tool, arm) for tool in settings.tools for arm in settings.arms),
        *(Trial(one.tool, "afdep", tree) for tree, one in INJECTED.items() if one.tool in settings.tools),
    )
    return () if done else [Block(tuple(_batch(settings, one) for one in trials))]


def _batch(settings: Settings, trial: Trial) -> Batch:
    quiet = ("--report-api-errors", "no") if trial.tool == "memcheck" else ()
    return Batch(
        (trial,),
        "cuda",
        "1A1F",
        edits=(INJECTED[trial.tree].edit,) if trial.tree in INJECTED else (),
        ranks_per_gpu=1,
        tool=(
            *("compute-sanitizer", "--tool", trial.tool, "--target-processes", "all"),
            *("--log-file", LOG, "--error-exitcode", "99", *quiet),
        ),
        limit_s=settings.limit_s,
        expected_s=20.0,
    )


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """A few exchanges, called by the host and compared bit for bit; the process ends well, for its tool's sake."""
    (trial,), shape = batch.trials, group.settings.shape
    group.turn()
    buffer = group.buffer(
        layout=batch.layout,
        arm=trial.arm,
        maker="ipc",
        timeout_s=group.settings.timeout_s,
        first_timeout_s=group.settings.timeout_s,
        **shape.fields,
    )
    facts: dict[str, Any] = {"digest": str(buffer.identity["digest"]), "exchanges": 0}
    try:
        group.prove(buffer, [loads.random(shape, [seed]) for seed in range(shape.exchanges)], shape.tokens)
        buffer.close()
        facts["exchanges"] = shape.exchanges
    except Exception as error:
        facts["failed"] = process.in_words(error)
    yield Said(0, facts)


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row a rank, once the tools have ended."""
    injected = INJECTED.get(trial.tree)
    fault: dict[str, Any] = {} if injected is None else {"control": injected.what, "expects": injected.kernel}
    row = Record(**vars(trial), **fault)
    if ended.void:
        return [replace(row, status=VOID, reason=ended.void)]
    if ended.files is None:
        return []
    row = replace(row, version=version(batch.tool[0]))
    rows = [_of_rank(row, rank, ended, ended.files) for rank in range(ended.num_ranks)]
    return [one if outcome(one, rows) in GOOD else _bad(one, rows, ended) for one in rows]


def _of_rank(row: Record, rank: int, ended: Ended, files: Path) -> Record:
    said, code = ended.said.get(rank, {}), re.match(r"exit code (\d+)", ended.endings.get(rank, "exit code 0"))
    log = process.tail(files / str(rank) / LOG) or process.tail(files / f"{rank}.stderr")
    return replace(
        row,
        rank=rank,
        native_digest=said.get("digest"),
        exchanges=int(said.get("exchanges", 0)),
        exit_code=int(code[1]) if code else None,
        **read(log, row.expects),
    )


def _bad(row: Record, rows: Sequence[Record], ended: Ended) -> Record:
    why = (outcome(row, rows), ended.said.get(row.rank or 0, {}).get("failed"), ended.endings.get(row.rank or 0))
    return replace(row, status=FAILED, reason="; ".join(filter(None, why)))


def outcome(row: Record, rows: Sequence[Record]) -> str:
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


def read(log: str, kernel: str) -> dict[str, Any]:
    """What a tool's log says: how many errors, whether one is placed in this kernel, and its first lines of them.

    What else it names, such as frames, says nothing of a place.
    """
    summary, named = _SUMMARY.search(log), re.compile(rf"(?:^|[\s:]){re.escape(kernel)}(?:$|[(<])")
    errors = None if summary is None else int(summary[1] or summary[2])
    lines = [line.removeprefix("=========").strip() for line in log.splitlines() if line.startswith("===")]
    told = [one for one in lines if one and not one.startswith(_NOT_OF_ERRORS) and not _SUMMARY.search(one)]
    said = "\n".join(told)[:600] if errors != 0 else ""
    return {"errors": errors, "in_kernel": any(map(named.search, _ERROR_AT.findall(log))), "said": said}


@cache
def version(tool: str) -> str:
    """What a tool of this machine says it is, in one line."""
    said = subprocess.run(
        [launch.place_of(tool, os.environ) or "true", "--version"], capture_output=True, text=True, check=False
    ).stdout
    return next((line.strip() for line in said.splitlines() if "ersion" in line), "unknown")
