#!/usr/bin/env bash
# The correctness matrix on H200s: makes the trials and the built library here, for a node that is offline.
#
#   bash slurm/h200-validate.sh                     # needs nvcc and no GPU; makes out/h200-validate
#   ./validate one-gpu 150                          # on the node, in that folder: all six layouts on one GPU, ended after 150 s
#   ./validate two-gpus 120                         # four layouts on two GPUs
#   bash slurm/h200-validate.sh keep one-gpu FOLDER # back here, with the folder that it left there: out/one-gpu, or $OUT/one-gpu
#
#   bash slurm/h200-validate.sh again one-gpu FOLDER # or so, where that was cut short: ./validate then plays what is left
#
# What comes of a trial is written as it ends, so a run that is cut short keeps what it has. `keep` replaces
# records/validation/h200-NAME.parquet and reports/validation/h200-NAME.md; trials that were not played stand there as void.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh
harness=(.venv/bin/python -m harness)

if [[ ${1:-make} == keep ]]; then
    [[ -f ${3:-}/outcomes.jsonl ]] ||
        refuse "keep: expected a name and a folder with outcomes.jsonl, received '${*:2}'." "Give the folder that ./validate left."
    rm -f "records/validation/h200-$2.parquet"
    "${harness[@]}" validate "source=$3" "keep=h200-$2"
    exit
fi

folder=out/h200-validate
if [[ ${1:-make} == again ]]; then
    mkdir -p "$folder/earlier/$2"
    cp "$3/outcomes.jsonl" "$folder/earlier/$2/"
    exit
fi

rm -rf "$folder"
mkdir -p "$folder/slots/slot0"
cp -r afdep harness vendor "$folder/slots/slot0/"
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
"${harness[@]}" validate validation=gpu "backends=[cuda]" "to=$folder/one-gpu.json"
"${harness[@]}" validate validation=gpu "backends=[cuda]" "validation.layouts=[1A1F,2A2F,3A1F,1A3F]" \
    "validation.cover.transport_sms=[7,16,24]" "to=$folder/two-gpus.json"
.venv/bin/python - "$folder" <<'PYTHON'
import sys
from pathlib import Path

from harness import bundle

bundle.carry_library(Path(sys.argv[1]) / "slots" / "slot0")
PYTHON
cat > "$folder/validate" <<'SH'
#!/bin/sh
# ./validate one-gpu|two-gpus SECONDS: play these trials, ended after so long. What comes of them goes to out/, or to $OUT.
cd "$(dirname "$0")" || exit 4
case "$1" in one-gpu) gpus=1 ;; two-gpus) gpus=2 ;; *) exit 4 ;; esac
out="${OUT:-out}/$1"
if [ -e "earlier/$1" ] && [ ! -e "$out" ]; then mkdir -p "$out" && cp "earlier/$1/outcomes.jsonl" "$out/"; fi
PYTHONPATH="$PWD/slots/slot0" exec timeout -k 15 "$2" \
    "${PYTHON:-python3}" -P -m harness.validation.offline "$1.json" "$out" "$gpus"
SH
chmod +x "$folder/validate"
echo "written: $folder; on the node: ./validate one-gpu 150 and ./validate two-gpus 120"
