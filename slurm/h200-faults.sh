#!/usr/bin/env bash
# Kernels without one guard, and kernels that are late, on two H200s: builds the libraries here, for a node that is offline.
#
#   bash slurm/h200-faults.sh             # needs nvcc and no GPU; makes out/h200-faults
#   ./faults                              # on the node, in that folder, with python3, torch, numpy, pyarrow and ml_dtypes
#   bash slurm/h200-faults.sh keep h200 FILE.parquet   # back here, with the file that it left there: in out/, or below $OUT
#
# The last one hunts the same guards on the simulator, keeps records/faults/NAME.parquet and writes reports/faults/NAME.md. On
# the node nothing is compiled; conf/faults bounds all its starts together, and what did not fit is void.
# The record is written anew with each trial: a command that is cut short leaves it, and its page says how many were not played.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh

if [[ ${1:-make} == keep ]]; then
    [[ -f ${3:-} ]] ||
        refuse "keep: expected a name and a file of trials, received '${*:2}'." "Give the .parquet file that ./faults left."
    .venv/bin/python -m harness faults "source=$3" "keep=$2"
    exit
fi

.venv/bin/python -m harness faults to=out/h200-faults
