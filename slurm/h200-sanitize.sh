#!/usr/bin/env bash
# Exchanges of 1A1F under compute-sanitizer on two H200s: makes the trees and their built libraries here, for an offline node.
#
#   bash slurm/h200-sanitize.sh           # needs nvcc and no GPU; makes out/h200-sanitize
#   ./sanitize [AT_A_TIME]                # on the node, in that folder: memcheck and racecheck on both arms, and on a planted fault each
#   bash slurm/h200-sanitize.sh keep FILE # back here, with the record that it left there: out/sanitizer/sanitizer.parquet, or below $OUT
#
# The last one replaces records/sanitizer/h200.parquet and makes reports/sanitizer.md. Runs share the GPUs by time slices, six at a time
# unless told otherwise; each is ended after 90 s. The record is written anew as each ends: a command that is cut short leaves it,
# with the runs that were not played.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh

if [[ ${1:-make} == keep ]]; then
    [[ -f ${2:-} ]] ||
        refuse "keep: expected a file of runs, received '${*:2}'." "Give the sanitizer.parquet that ./sanitize left."
    .venv/bin/python -m harness.sanitizer.page "$2" reports/sanitizer.md # ahead of the copy: what cannot be read replaces nothing
    mkdir -p records/sanitizer
    cp "$2" records/sanitizer/h200.parquet
    exit
fi

folder=out/h200-sanitize
rm -rf "$folder"
.venv/bin/python - "$folder" <<'PYTHON'
import shutil
import sys
from pathlib import Path

from harness import bundle
from harness.sanitizer.plants import PLANTS, SOUND

for name, plant in [(SOUND, None), *((one.name, one) for one in PLANTS)]:
    slot = Path(sys.argv[1]) / "slots" / name
    for package in ("afdep", "harness", "vendor"):
        shutil.copytree(package, slot / package, ignore=shutil.ignore_patterns("__pycache__"))
    if plant is not None:
        plant.put(slot)
    bundle.carry_library(slot)
PYTHON
cat > "$folder/sanitize" <<'SH'
#!/bin/sh
# ./sanitize [AT_A_TIME]: every run, so many at once. The record goes to out/, or to $OUT, the logs beside it.
cd "$(dirname "$0")" || exit 4
PYTHONPATH="$PWD/slots/sound" exec "${PYTHON:-python3}" -P -m harness.sanitizer.offline slots "${OUT:-out}/sanitizer" "$@"
SH
chmod +x "$folder/sanitize"
echo "written: $folder; on the node: ./sanitize"
