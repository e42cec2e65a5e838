#!/usr/bin/env bash
# The measured screens of 1A1F on two H200s: plans them here, and bundles them for a node that is offline.
#
#   bash slurm/h200-screens.sh            # needs nvcc and no GPU; makes out/h200 (plans) and out/h200-bundle
#   ./run                                 # on the node, in the bundle's folder; records go to its out/records
#   cp -r BUNDLE/out/records out/h200/    # back here, and then:
#   bash slurm/h200-screens.sh keep       # replaces records/h200 and makes reports/h200.md
#
# Plans run in the order they are made here, pair by pair, so a run that is cut short has whole pairs but for the last;
# started again it goes on where it ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh
harness=(.venv/bin/python -m harness)
out=out/h200

both="m2n,afdep"
every="$both,afdep@bd4db4da,nccl"

plan() {
    "${harness[@]}" plan screen=grid "launcher.out=$out" "$@"
    sleep 1 # plans run in the order of their times of creation, which are in seconds
}

keep() {
    compgen -G "$out/plans/*.json" > /dev/null && compgen -G "$out/records/*/*.parquet" > /dev/null ||
        refuse "keep: expected plans and records in $out, received none." "Copy what came back there first."
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
plan screen.name=h200 backend=upstream "arm=[$every]" hidden=2048 dtype=bf16 routing=random backend.pairs=4
plan screen.name=h200-sms backend=upstream "arm=[$both]" exchange.transport_sms=64 backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[$both]" hidden=4096 dtype=bf16 routing=random backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[$both]" "hidden=[2048,4096]" dtype=fp8 routing=random backend.pairs=2
plan screen.name=h200-free backend=cuda "arm=[$both]" "hidden=[2048,4096]" backend.pairs=2
plan screen.name=h200-eager backend=upstream "arm=[$both]" exchange.mode=eager backend.pairs=2
plan screen.name=h200 backend=upstream "arm=[$both]" "hidden=[2048,4096]" "dtype=[bf16,fp8]" routing=skew backend.pairs=2
"${harness[@]}" bundle "launcher.out=$out" launcher.timeout_s=120 to=out/h200-bundle
