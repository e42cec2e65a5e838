#!/usr/bin/env bash
# The measured screens of four ranks on two H200s, which share GPUs under MPS: plans and bundles them for a node that is offline.
#
#   bash slurm/h200-colocated.sh          # needs nvcc and no GPU; makes out/h200-colocated (plans) and out/h200-colocated-bundle
#   rm -rf out; ln -s "$OUT" out; ./run   # on the node, in the bundle's folder; a link where only $OUT comes back
#   cp -r BUNDLE/out/records out/h200-colocated/   # back here, and then:
#   bash slurm/h200-colocated.sh keep     # replaces records/h200-colocated and makes reports/h200-colocated.md
#
# Roles stand on GPUs of their own, so the fullest GPU has two ranks of 2A2F, and three of 3A1F and 1A3F. Both arms have the same
# places and 24 transport SMs: the least share, half a GPU's 132 with two ranks on it, has room for 33 a rank. A plan a layout, each of
# four processes: two pairs, in both orders. Each process says that it starts, has its ranks, and has measured a cell. A process
# writes its records at its end: a run that is cut short has whole pairs but for the last; started again it goes on where it ended.
# ./run ends with 4 where a process failed, and with 3 where all is void, as without MPS: the records hold the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh
harness=(.venv/bin/python -m harness)
out=out/h200-colocated

plan() {
    "${harness[@]}" plan screen=grid screen.name=h200-colocated "launcher.out=$out" backend=cuda \
        "arm=[m2n,afdep]" hidden=2048 dtype=bf16 routing=random backend.pairs=2 "$@"
    sleep 1 # plans run in the order of their times of creation, which are in seconds
}

if [[ ${1:-plan} == keep ]]; then
    compgen -G "$out/plans/*.json" > /dev/null && compgen -G "$out/records/*/*.parquet" > /dev/null ||
        refuse "keep: expected plans and records in $out, received none." "Copy what came back there first."
    rm -rf records/h200-colocated
    for file in "$out"/plans/*.json; do
        "${harness[@]}" records "launcher.out=$out" keep=h200-colocated "plan=$(basename "$file" .json)" || [[ $? == 3 ]] # 3: none of it was run
    done
    "${harness[@]}" report target=all source=records/h200-colocated
    exit
fi

rm -rf "$out/plans"
plan layout=2A2F backend.ranks_per_gpu=2
plan layout=3A1F backend.ranks_per_gpu=3
plan layout=1A3F backend.ranks_per_gpu=3 screen.experts=96
"${harness[@]}" bundle "launcher.out=$out" launcher.timeout_s=60 to=out/h200-colocated-bundle
