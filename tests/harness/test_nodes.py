"""Stages of a node: what is planned for four and for eight GPUs, in which order, and how a stage of it runs."""

import dataclasses
import os
import subprocess
import sys
from collections import Counter

import pytest

from afdep import Layout
from harness import published, records
from harness.colocation import planned
from harness.compose import CONF_DIR, compose, load_options
from harness.errors import PlacementError, UsageError
from harness.identity import Identity
from harness.nodes import make, offline, stages
from harness.nodes.stages import Stage
from harness.order import processes
from harness.plan import Cell, PlanFile, PlannedArm
from harness.validate import screen_config
from harness.validation.on_gpus import Gpus
from harness.workspace import REPOSITORY
from tests.harness.samples import plan
from tests.harness.test_bundle import RANKS, bundled

SCRIPT = REPOSITORY / "slurm" / "h200-nodes.sh"
GPUS = {"four": 4, "eight": 8}
LAYOUTS = {"four": ["2A2F", "3A1F", "1A3F"], "eight": ["4A4F", "6A2F", "7A1F", "5A1F"]}
PROCESS_S = {"four": 8, "eight": 10}


def configs(node):
    """The screens that the script plans for a node, in order."""
    said = subprocess.run(["bash", str(SCRIPT), "words", node], capture_output=True, text=True, check=True).stdout
    routings = load_options("routing", CONF_DIR)
    return [screen_config(compose("plan", line.split()), routings) for line in said.splitlines()]


def plan_of(config):
    """The plan of a screen, but for its digests."""
    arms = tuple(PlannedArm(arm.name, 0, Identity("n12345678", arm.name, ())) for arm in config.arms)
    return dataclasses.replace(
        plan(),
        backend=config.backend,
        exchange=config.exchange,
        rows=config.rows,
        arms=arms,
        cells=tuple(Cell(tokens, tokens) for tokens in config.tokens),
        processes=processes(len(config.rows), len(arms), 1, config.backend.pairs),
    )


def stages_of(config, process_s=8):
    own = plan_of(config)
    return own, stages.of_plan(PlanFile(own.plan_hash, "now", "command", own), process_s)


every_node = pytest.mark.parametrize("node", GPUS)


def test_the_first_screen_of_four_gpus_is_the_published_table():
    first = configs("four")[0]
    points = {(row.layout, row.hidden, row.dtype, row.routing, tokens) for row in first.rows for tokens in first.tokens}
    assert points == set(published.load("result-main").cells)
    assert (first.published, first.backend.device.rendezvous, first.exchange.transport_sms) == (
        "result-main",
        "host",
        24,
    )


@every_node
def test_both_timings_are_planned_with_the_first_in_all_four_arms(node):
    first, second = configs(node)
    assert [one.backend.device.rendezvous for one in (first, second)] == ["host", "device"]
    assert [arm.name for arm in first.arms] == ["m2n", "afdep", "afdep@bd4db4da", "nccl"]
    assert [one.backend.pairs for one in (first, second)] == [4, 2]
    assert [arm.name for arm in second.arms][:2] == ["m2n", "afdep"]


@every_node
def test_each_layout_of_a_node_has_a_rank_a_gpu_and_experts_that_its_ffn_ranks_divide(node):
    rows = [row for config in configs(node) for row in config.rows]
    assert list(dict.fromkeys(row.layout for row in rows)) == LAYOUTS[node]
    for row in rows:
        layout = Layout.parse(row.layout)
        gpus = [seat.gpu for seat in planned(layout, 1).seats]
        assert sorted(gpus) == list(range(layout.num_ranks))
        assert layout.num_ranks <= GPUS[node]
        assert row.experts % layout.ffn_ranks == 0


@every_node
def test_stages_take_every_process_once_and_hold_whole_pairs(node):
    for config in configs(node):
        own, found = stages_of(config)
        parts = [[one for one in own.processes if stage.takes(one)] for stage in found]
        assert Counter(one for part in parts for one in part) == Counter(own.processes)
        for part in parts:
            assert set(Counter((one.row, one.pair) for one in part).values()) == {len(own.arms)}


@every_node
def test_a_round_of_both_orders_of_every_row_comes_before_the_next_round(node):
    for config in configs(node):
        _, found = stages_of(config)
        assert [stage.pairs for stage in found] == sorted(stage.pairs for stage in found)
        for pairs in {stage.pairs for stage in found}:
            rows = [row for stage in found if stage.pairs == pairs for row in stage.rows]
            assert rows == list(range(len(config.rows)))
            assert (len(pairs), pairs[0] % 2) == (2, 0)


@every_node
def test_a_stage_takes_what_its_processes_take_and_all_of_them_take_less_than_half_an_hour(node):
    total = 0
    for config in configs(node):
        own, found = stages_of(config, PROCESS_S[node])
        for stage in found:
            num = sum(stage.takes(one) for one in own.processes)
            assert stage.expected_s == num * PROCESS_S[node] <= stages.MOST_S
            assert stage.expected_s < stage.limit_s < 600
            total += stage.expected_s
    assert total < 25 * 60


def test_a_stage_needs_a_gpu_for_each_rank_of_its_largest_layout():
    assert [{stage.gpus for stage in stages_of(configs(node)[0])[1]} for node in GPUS] == [{4}, {8}]


def test_a_table_is_read_as_it_was_written(tmp_path):
    written = [stages.of_trials(4, 40), *stages_of(configs("four")[0])[1]]
    stages.write(tmp_path / stages.TABLE, written)
    assert stages.read(tmp_path / stages.TABLE) == written


def test_an_unknown_stage_lists_the_known_ones():
    with pytest.raises(UsageError, match="did you mean barrier-1"):
        stages.named([Stage("barrier-1", 1, 2, 4, "p1")], "barrier1")


@pytest.fixture
def node(bench):
    """A bundle of one row in four pairs of two arms, with its stages."""
    return bundle_of(bench)


def bundle_of(bench):
    folder = bundled(bench, *RANKS[:1], "backend.pairs=4", *RANKS[2:])
    assert make.main([str(folder), "2", "120", "40"]) == 0
    return folder


def run(folder, name, gpus=2):
    return offline.main([name], folder, Gpus(gpus, "NVIDIA H200", 132))


def measured(folder):
    found = records.read(sorted((folder / "out").rglob("*.parquet"))).records
    return Counter((one.pair, one.status) for one in found)


def test_a_stage_runs_its_pairs_alone_and_none_of_them_again(node, capsys):
    assert [one.name for one in stages.read(node / stages.TABLE)] == ["validation", "barrier-1", "barrier-2"]
    assert run(node, "barrier-2") == 0
    assert measured(node) == {(2, "ok"): 8, (3, "ok"): 8}
    assert run(node, "barrier-2") == 0
    assert "stage barrier-2: 0 processes" in capsys.readouterr().out
    assert run(node, "barrier-1") == 0
    assert measured(node) == {(pair, "ok"): 8 for pair in range(4)}


@pytest.mark.parametrize("gpus", [Gpus(1, "NVIDIA H200", 132), "needs GPUs: the driver shows no GPU"], ids=["1", "0"])
def test_a_machine_with_fewer_gpus_is_refused_in_two_lines_before_anything_starts(node, gpus):
    with pytest.raises(PlacementError, match=r"expected 2 GPUs, one for each rank, received [01]\.") as caught:
        offline.main(["barrier-1"], node, gpus)
    assert len(str(caught.value).splitlines()) == 2
    assert not (node / "out").exists()


def test_a_process_that_fails_fails_its_stage(bench):
    bench.behave({"arm": "m2n", "tokens": 8, "rank": 0, "do": "raise", "word": "wrong bit"})
    node = bundle_of(bench)
    assert run(node, "barrier-2") == 4
    assert measured(node)[2, "failed"] == measured(node)[3, "failed"] == 1


def command(folder, *words):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHON": sys.executable}
    no_gpu = {"CUDA_VISIBLE_DEVICES": "", "OUT": str(folder / "left")}
    return subprocess.run(list(words), cwd=folder, env=environment | no_gpu, capture_output=True, text=True, timeout=60)


def test_the_commands_of_a_node_end_with_the_status_of_a_stage_and_leave_an_archive(node):
    (node / "left").mkdir()
    (node / "out").mkdir()
    (node / "out" / "word").touch()
    done = command(node, "./stage", "barrier-1")
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 2)
    assert command(node, "./all").returncode == 4
    assert sorted(path.name for path in (node / "left").iterdir()) == [
        "barrier-1.tgz",
        "barrier-2.tgz",
        "validation.tgz",
    ]
    assert command(node, "tar", "-tzf", "left/validation.tgz").stdout.splitlines() == ["out/", "out/word"]


def test_the_stage_of_trials_becomes_their_player_with_the_gpus_of_the_node(node, monkeypatch):
    class BecameError(Exception): ...

    def become(path, words):
        raise BecameError(*words)

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(BecameError) as caught:
        run(node, "validation")
    assert caught.value.args[2:4] == ("-m", "harness.validation.offline")
    assert list(caught.value.args[4:]) == [str(node / "validation.json"), str(node / "out" / "validation"), "2"]


def test_commands_hold_stages_in_order_and_are_well_below_ten_minutes():
    found = [stages.of_trials(4, 40), *(stage for config in configs("four") for stage in stages_of(config)[1])]
    together = stages.commands(found)
    assert [stage for own in together for stage in own] == found
    assert len(together) > 1
    assert all(sum(stage.expected_s for stage in own) <= stages.COMMAND_S < 480 for own in together)


def test_commands_are_listed_with_their_seconds_and_their_sum_last():
    found = [Stage(name, s, 2 * s, 4, "p1") for name, s in (("validation", 40), ("barrier-1", 384), ("barrier-2", 100))]
    assert [line.split() for line in make.listed(found)] == [
        "./stage validation barrier-1 about 424 s".split(),
        "./stage barrier-2 about 100 s".split(),
        "./all about 524 s".split(),
    ]
