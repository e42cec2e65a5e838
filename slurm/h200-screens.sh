#!/usr/bin/env bash
# The measured screens of 1A1F on two H200s: plans them here, and bundles them for a node that is offline.
#
#   bash slurm/h200-screens.sh            # needs nvcc and no GPU; makes out/h200 (plans) and out/h200-bundle
#   ./run                                 # on the node, in the bundle's folder; records go to its out/records
#   cp -r BUNDLE/out/records out/h200/    # back here, and then:
#   bash slurm/h200-screens.sh keep       # replaces records/h200 and makes reports/h200.md
#
# A process takes 5 to 7 s on a node with two GPUs, nearly all of it start-up; the first of a plan takes 4 s more. Plans
# run in the order they are made here, pair by pair, so a run that is cut short has whole pairs but for the last; started
# again it goes on where it ended. Processes, and minutes from the start by which they are done: 16 (1.7), with 64 SMs
# 4 (2.2), 4,096 8 (3.1), FP8 16 (4.8), eager 4 (5.3), skew 16 (7.0), free-running 4 (7.5); with push
# 4 and 2 more, 0.6 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
harness=(.venv/bin/python -m harness)
out=out/h200

# The protocol without push, under the shortest name that means it in this tree, and the one with push where there is one.
bulk=afdep push=
if .venv/bin/python -c 'import sys; from afdep import controls; sys.exit("AFDEP_PUSH_MAX_BUCKET" not in controls.NAMES)'; then
    bulk="'afdep[AFDEP_PUSH_MAX_BUCKET=0]'" push=",afdep"
fi
every="m2n,$bulk,afdep@bd4db4da,nccl"

plan() {
    "${harness[@]}" plan screen=grid "launcher.out=$out" launcher.timeout_s=120 "$@"
    sleep 1 # plans run in the order of their times of creation, which are in seconds
}

keep() {
    rm -rf records/h200
    for file in "$out"/plans/*.json; do
        "${harness[@]}" records "launcher.out=$out" keep=h200 "plan=$(basename "$file" .json)" || [[ $? == 3 ]] # 3: none of it was run
    done
    "${harness[@]}" report target=all source=records/h200
}

if [[ ${1:-plan} == keep ]]; then
    keep
    exit
fi

rm -rf "$out/plans"
plan screen.name=h200 backend=upstream "arm=[$every$push]" hidden=2048 dtype=bf16 routing=random backend.pairs=4
plan screen.name=h200-sms backend=upstream "arm=[m2n,$bulk]" exchange.transport_sms=64 backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[$every]" hidden=4096 dtype=bf16 routing=random backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[$every]" "hidden=[2048,4096]" dtype=fp8 routing=random backend.pairs=2
plan screen.name=h200-eager backend=upstream "arm=[m2n,$bulk]" exchange.mode=eager backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[m2n,$bulk]" "hidden=[2048,4096]" "dtype=[bf16,fp8]" routing=skew \
    backend.pairs=2
plan screen.name=h200-free backend=cuda "arm=[m2n,$bulk$push]" backend.pairs=2
"${harness[@]}" bundle "launcher.out=$out" to=out/h200-bundle
