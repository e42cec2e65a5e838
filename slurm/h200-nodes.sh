#!/usr/bin/env bash
# One rank a GPU on a node of four H200s, in the layouts of the published table, or on one of eight: validation first, then
# the table, in stages of a few minutes each.
#
#   bash slurm/h200-nodes.sh four         # or eight; needs nvcc and no GPU; makes out/h200-four, lists commands and their seconds
#   ./all                                 # on the node, in that folder: every stage in turn, below half an hour
#   ./stage NAME...                       # or a few at a time, as listed, where a command is limited to ten minutes
#   bash slurm/h200-nodes.sh keep four FILE.tgz ...   # back here, with what each stage left beside itself, or in $OUT
#
# A stage holds whole pairs of both orders, and a round of two pairs of every row runs before the next round. `keep` takes
# files of several machines; it replaces records/h200-four, reports/h200-four.md and the validation of that name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source slurm/refuse.sh
harness=(.venv/bin/python -m harness)
every="m2n,afdep,afdep@bd4db4da,nccl"
both="m2n,afdep"

words() { # of each plan, in the order they run
    if [[ $1 == four ]]; then
        echo "screen=table screen.name=h200-four backend=upstream arm=[$every] backend.pairs=4"
        echo "screen=table screen.name=h200-four-free screen.published=none backend=cuda arm=[$every] backend.pairs=2"
    else
        echo "screen=eight screen.name=h200-eight backend=upstream arm=[$every] backend.pairs=4"
        echo "screen=eight screen.name=h200-eight-free backend=cuda arm=[$both] backend.pairs=2 hidden=2048 dtype=bf16 routing=random"
    fi
}

keep() {
    (($# > 1)) || refuse "keep: expected four or eight and files, received '$*'." "Give what each stage left: FILE.tgz ..."
    for file in "${@:2}"; do
        tar -tzf "$file" > /dev/null 2>&1 || refuse "keep: expected a tar file, received '$file'." "Give what each stage left: FILE.tgz ..."
    done
    local name=h200-$1 home=out/h200-$1-plans back
    back=$home/back
    rm -rf "$back" "records/$name"
    mkdir -p "$back"
    shift
    for file in "$@"; do tar -xzf "$file" -C "$back"; done
    if [[ -d $back/out/records ]]; then
        cp -r "$back/out/records" "$home/"
        for file in "$home"/plans/*.json; do
            "${harness[@]}" records "launcher.out=$home" "keep=$name" "plan=$(basename "$file" .json)" || [[ $? == 3 ]] # 3: none of it was run
        done
        .venv/bin/python -m harness.nodes.page "records/$name" "reports/$name.md"
    fi
    if [[ -d $back/out/validation ]]; then
        rm -f "records/validation/$name.parquet"
        "${harness[@]}" validate "source=$back/out/validation" "keep=$name"
    fi
}

case ${1:-} in
keep) keep "${@:2}"; exit ;;
words) words "$2"; exit ;;
four) gpus=4 layouts=2A2F,3A1F,1A3F,2A1F process_s=8 trials_s=40 ;;
eight) gpus=8 layouts=6A2F,7A1F,4A4F,5A1F process_s=10 trials_s=90 ;;
*) sed -n '2,11p' "$0" >&2; exit 4 ;;
esac

folder=out/h200-$1
rm -rf "$folder-plans"
while read -ra plan; do
    "${harness[@]}" plan "${plan[@]}" "launcher.out=$folder-plans"
    sleep 1 # plans run in the order of their times of creation, which are in seconds
done < <(words "$1")
"${harness[@]}" bundle "launcher.out=$folder-plans" launcher.timeout_s=60 "to=$folder"
"${harness[@]}" validate validation=gpu "backends=[cuda]" "validation.layouts=[$layouts]" \
    "validation.cover.transport_sms=[7,16,23,24]" "to=$folder/validation.json"
.venv/bin/python -m harness.nodes.make "$folder" "$gpus" "$process_s" "$trials_s"
