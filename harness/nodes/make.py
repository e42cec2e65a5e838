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
# ./stage NAME...: stages of stages.tsv, each ended after its limit. Then out/ goes to NAME.tgz here, or in $OUT.
cd "$(dirname "$0")" || exit 4
worst=0
for name in "$@"; do
    limit=$(awk -F '\\t' -v name="$name" 'NR > 1 && $1 == name { print $3 }' stages.tsv)
    PYTHONPATH="$PWD/slots/slot0" timeout -k 15 "${limit:-60}" "${PYTHON:-python3}" -P -m harness.nodes.offline "$name"
    status=$?
    if [ $status -gt $worst ]; then worst=$status; fi
    archive="${OUT:-.}/$name.tgz"
    if [ -d out ]; then tar -czf "$archive.part" out && mv "$archive.part" "$archive"; fi
done
exit $worst
"""

_ALL = """#!/bin/sh
# ./all: every stage in turn. What is measured already is not measured again, so it may be started again.
cd "$(dirname "$0")" || exit 4
exec ./stage $(awk -F '\\t' 'NR > 1 { print $1 }' stages.tsv)
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
    """Commands of a few stages with their seconds, in order, and the one for all of them."""
    lines = []
    for together in [*stages.commands(found), None]:
        own = found if together is None else together
        words = f"./{ALL}" if together is None else f"./{STAGE} {' '.join(one.name for one in own)}"
        lines.append(f"{words:<48} about {sum(one.expected_s for one in own):4} s")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
