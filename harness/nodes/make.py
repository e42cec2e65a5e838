"""Makes the stages of a bundle: `python -m harness.nodes.make FOLDER GPUS PROCESS_S TRIALS_S`, behind its plans.

Writes the table of stages and the two commands that run them, and says what each should take.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness import plan as plans
from harness.bundle import PLANS
from harness.nodes import stages
from harness.nodes.stages import Stage

STAGE, ALL = "stage", "all"
"""The commands."""

_STAGE = """#!/bin/sh
# ./stage NAME: one stage of stages.tsv, ended after its limit. What is in out/ then goes to NAME.tgz, here or in $OUT.
cd "$(dirname "$0")" || exit 4
limit=$(awk -F '\\t' -v name="$1" 'NR > 1 && $1 == name { print $3 }' stages.tsv)
PYTHONPATH="$PWD/slots/slot0" timeout -k 15 "${limit:-60}" "${PYTHON:-python3}" -P -m harness.nodes.offline "$1"
status=$?
if [ -d out ]; then tar -czf "${OUT:-.}/$1.tgz" out; fi
exit $status
"""

_ALL = """#!/bin/sh
# ./all: every stage in turn. What is measured already is not measured again, so it may be started again.
cd "$(dirname "$0")" || exit 4
worst=0
for name in $(awk -F '\\t' 'NR > 1 { print $1 }' stages.tsv); do
    ./stage "$name" || worst=$?
done
exit $worst
"""


def main(words: Sequence[str]) -> int:
    """Write them."""
    folder, (gpus, process_s, trials_s) = Path(words[0]), map(int, words[1:4])
    files = sorted(map(plans.load, (folder / PLANS).glob("*.json")), key=lambda one: (one.created, one.plan_hash))
    found = [stages.of_trials(gpus, trials_s)]
    for file in files:
        found += stages.of_plan(file, process_s)
    stages.write(folder / stages.TABLE, found)
    for name, text in ((STAGE, _STAGE), (ALL, _ALL)):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    print("\n".join(listed(found)))
    return 0


def listed(found: Sequence[Stage]) -> list[str]:
    """A line for each command with its seconds, and one for all of them."""
    lines = [f"./{STAGE} {one.name:<12} about {one.expected_s:4} s, at the most {one.limit_s:4} s" for one in found]
    return [*lines, f"./{ALL:<18} about {sum(one.expected_s for one in found):4} s"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
