"""Plans on a node without network, compiler or Hydra: `python -P -m harness.core.node [NAME ...]`, as `./run` does.

A bundle holds plans in order, their trees with built libraries, and what a run writes. What is recorded is not measured
again, so a run that was cut short goes on where it ended; a plan may be ended after its limit, and the next follows.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.core import plan as plans
from harness.core import process
from harness.core.codec import decode
from harness.core.executor import Executor, Limits
from harness.core.identity import Sources
from harness.core.ledger import Progress
from harness.core.plan import INDEX, OUT, Workspace
from harness.core.trees import Slots
from harness.errors import Exit, HarnessError, UsageError, valid_names
from harness.records.envelope import FAILED, OK

SLOTS, RUN = "slots", "run"


@dataclass(frozen=True)
class Entry:
    """One plan of a bundle.

    Args:
        name: by which it is run.
        plan: its hash.
        slots: folder of its trees, below `slots`.
        num_trees: there.
        sources: Python files that its processes may load.
        expected_s: that it should take.
        limit_s: after which no batch is started.
        grace_s: that one which runs then still has.
        jobs, timeout_s: of the launcher.
    """

    name: str
    plan: str
    slots: str
    num_trees: int
    sources: Sources
    expected_s: float
    limit_s: float
    jobs: int
    timeout_s: float
    grace_s: float = 30.0


def entries(folder: Path) -> list[Entry]:
    """The plans of a bundle, in order.

    Raises:
        UsageError: its list is damaged, or somebody else's.
    """
    try:
        data: Any = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [decode(Entry, one) for one in data["entries"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{INDEX} of {folder.name}: expected the list of a bundle, received {type(error).__name__}.",
            "Nothing there is touched: put the file back, or choose another folder.",
        ) from error


def main(names: Sequence[str], folder: Path) -> int:
    """Run plans of the bundle, all where none is named; the worst exit status of them."""
    known = {one.name: one for one in entries(folder)}
    for name in names:
        if name not in known:
            raise UsageError(f"plan: expected one of this bundle, received {name!r}.", valid_names(name, known))
    chosen = [known[name] for name in names] or list(known.values())
    statuses = []
    for number, one in enumerate(chosen, 1):
        _say(f"{number} of {len(chosen)}: {one.name}, about {one.expected_s:.0f} s, {one.limit_s:.0f} s at the most")
        statuses.append(_in_a_process(one, folder))
    return max(statuses, default=int(Exit.NOTHING))


def _in_a_process(one: Entry, folder: Path) -> int:
    """Run a plan from its own trees, in a process that is ended after its limit."""
    slot = (folder / SLOTS / one.slots / "slot0").resolve()
    environ = process.environment(slot, os.environ)
    with subprocess.Popen(
        [*process.command("harness.core.node", "--plan", one.name)], cwd=folder, env=environ
    ) as child:
        try:
            return child.wait(one.limit_s + one.grace_s)
        except subprocess.TimeoutExpired:
            _say(f"{one.name}: ended after its limit; started again it goes on")
            child.terminate()
            child.wait()
            return int(Exit.NOTHING)


def run_plan(one: Entry, folder: Path) -> int:
    """Run what a plan lacks, here; of a pair that lost a side neither counts."""
    file = plans.load(Workspace(folder).plans / f"{one.plan}.json")
    executor = Executor(
        file,
        Slots((folder / SLOTS / one.slots).resolve(), one.num_trees),
        one.sources,
        Workspace(folder / OUT),
        Limits(one.jobs, one.timeout_s, time.monotonic() + one.limit_s),
        Progress(file.plan, time.monotonic, _say),
        os.environ,
        lambda: datetime.now(UTC),
        f"./{RUN} {one.name}",
    )
    _say(f"plan {one.plan}: {executor.progress.total} trials to run")
    with process.stopped_by_signals():
        executor.execute()
    for place, reason in executor.failures.items():
        _say(f"failed: {reason}; all of stderr in {place}")
    counted = Counter(row.status for row in executor.ledger.rows)
    lacking, rounds = executor.num_missing(), executor.ledger.rounds
    total = sum(len(batch.trials) for blocks in rounds for block in blocks for batch in block.batches)
    more = f"; {lacking} of {total} trials do not count" if lacking else ""
    _say(f"{one.name}: {', '.join(f'{count} {name}' for name, count in sorted(counted.items())) or 'no'} records{more}")
    found = Exit.FOUND if FAILED in counted else Exit.OK if OK in counted and lacking < total else Exit.NOTHING
    return int(Exit.ERROR if executor.failures and found == Exit.OK else found)


def _say(line: str) -> None:
    print(line, flush=True)


def _command(words: Sequence[str], folder: Path) -> int:
    if words[:1] == ["--plan"]:
        return run_plan(next(one for one in entries(folder) if one.name == words[1]), folder)
    return main(words, folder)


if __name__ == "__main__":
    try:
        status = _command(sys.argv[1:], Path.cwd())
    except process.Interrupted as interruption:
        status = interruption.status
    except HarnessError as error:
        print(error, file=sys.stderr)
        status = int(Exit.ERROR)
    process.leave(status)
