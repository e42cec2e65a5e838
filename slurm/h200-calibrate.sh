#!/usr/bin/env bash
# The calibration of the simulated machine on two H200s: builds the probes here, for a node that is offline.
#
#   bash slurm/h200-calibrate.sh          # needs nvcc and no GPU; makes out/h200-calibrate
#   ./calibrate                           # on the node, in that folder, with python3, numpy and pyarrow: under a minute
#   bash slurm/h200-calibrate.sh keep h200 FOLDER   # back here, with the folder that it left in out/calibrations there
#
# The last one keeps records/calibrations/NAME, writes reports/calibrations/NAME.md and the machine out/NAME-measured.yaml;
# conf/machine stays as it is. Every bundle of screens has the command ./calibrate too. Five processes, one a group of probes, are
# ended after 20 s each where they hang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh

if [[ ${1:-make} == keep ]]; then
    [[ -f ${3:-}/readings.parquet ]] ||
        refuse "keep: expected a name and a folder of readings, received '${*:2}'." "Give the folder that ./calibrate left."
    .venv/bin/python -m harness calibrate "source=$3" "keep=$2" "write=out/$2-measured.yaml"
    exit
fi

folder=out/h200-calibrate
rm -rf "$folder"
mkdir -p "$folder/slots/slot0"
cp -r afdep harness "$folder/slots/slot0/"
.venv/bin/python - "$folder" <<'PYTHON'
import sys
from pathlib import Path

from harness import bundle

folder = Path(sys.argv[1])
bundle.carry_probes(folder / "slots" / "slot0")
bundle.write_commands(folder, [bundle.CALIBRATE])
PYTHON
echo "written: $folder; on the node: ./calibrate"
