#!/usr/bin/env bash
# The tests that need GPUs, on two H200s: makes the tree that they need with its built library, for a node that is offline.
#
#   bash slurm/h200-tests.sh              # needs nvcc and no GPU; makes out/h200-tests
#   ./tests [SECONDS]                     # on the node, in that folder, with python3, torch, numpy and pytest: about 100 s
#   bash slurm/h200-tests.sh keep FOLDER  # back here, with the folder of junit.xml and facts.json: out there, or $OUT
#
# The last one replaces records/device-tests/h200.parquet and makes reports/device-tests.md; `page` makes the page alone.
# A test that is skipped there stands in the record as skipped, and counts as one that has not passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh
record=records/device-tests/h200.parquet
page() { .venv/bin/python -m harness.device_tests.page "$record" reports/device-tests.md; }

case ${1:-make} in
keep)
    [[ -f ${2:-}/junit.xml && -f ${2:-}/facts.json ]] ||
        refuse "keep: expected a folder of junit.xml and facts.json, received '${*:2}'." "Give the folder that ./tests left."
    .venv/bin/python -m harness.device_tests.keep "$2" "$record"
    page
    exit
    ;;
page) page; exit ;;
esac

folder=out/h200-tests
tree=$folder/slots/slot0
rm -rf "$folder"
mkdir -p "$tree/tests"
cp -r afdep harness vendor conf pyproject.toml "$tree/"
cp -r tests/conftest.py tests/device "$tree/tests/"
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
.venv/bin/python - "$tree" <<'PYTHON'
import sys
from pathlib import Path

from harness import bundle

bundle.carry_library(Path(sys.argv[1]))
PYTHON
cat > "$folder/tests" <<'SH'
#!/bin/sh
# ./tests [SECONDS]: every test of tests/device, interrupted after so long. What came of them goes to out/, or to $OUT.
cd "$(dirname "$0")" || exit 4
out="${OUT:-$PWD/out}"
mkdir -p "$out"
cd slots/slot0 || exit 4
"${PYTHON:-python3}" -m harness.device_tests.facts "$out/facts.json" || exit
exec timeout -s INT -k 30 "${1:-240}" \
    "${PYTHON:-python3}" -m pytest tests/device -p no:cacheprovider --junitxml="$out/junit.xml"
SH
chmod +x "$folder/tests"
echo "written: $folder; on the node: ./tests, about 100 s"
