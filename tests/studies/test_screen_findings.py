"""What counts of a screen's records: whole cells as the plan has them, and pairs of one run and one machine."""

import dataclasses
import json

import pytest

from harness.core.ledger import Ledger
from harness.report.page import num_missing
from harness.report.statistics import Pair
from harness.studies.screen import report
from harness.studies.screen.findings import findings
from tests.harness.samples import MAIN, ROW, lay, on_gpus, part, plan, records, results

SIM = plan(rows=(ROW,), tokens=(8,))
GPUS = plan(rows=(ROW,), tokens=(8,), backend=on_gpus(), published=None)
BASELINE, CANDIDATE = range(2)


def facts(**changes):
    """A change of what a rank saw of itself."""
    return lambda row: {"observed": json.dumps(json.loads(row.observed) | changes)}


UNTRUE = {
    "machine": ({"machine": "h200-nvlink"}, "machine: expected h100-nvlink, received h200-nvlink on rank 1"),
    "layout": ({"layout": "2A2F"}, "layout: expected 1A1F, received 2A2F"),
    "hidden": ({"hidden": 64}, "hidden: expected 2048, received 64"),
    "dtype": ({"dtype": "fp8"}, "dtype: expected bf16, received fp8"),
    "routing": ({"routing": "skew"}, "routing: expected random, received skew"),
    "num_experts": ({"num_experts": 64}, "num_experts: expected 128, received 64"),
    "tokens": ({"tokens": 16}, "tokens: expected 8, received 16"),
    "bucket": ({"bucket": 16}, "bucket: expected 8, received 16"),
    "top_k": ({"top_k": 4}, "top_k: expected 8, received 4"),
    "capacity": ({"capacity": 64}, "capacity: expected 2048, received 64"),
    "transport_sms": ({"transport_sms": 64}, "transport_sms: expected 24, received 64"),
    "collect": ({"collect": "view"}, "collect: expected copy, received view"),
    "mode": ({"mode": "eager"}, "mode: expected graph, received eager"),
    "seed": ({"seed": 7}, "seed: expected 0, received 7"),
    "ranks_per_gpu": ({"ranks_per_gpu": 2}, "ranks_per_gpu: expected 1, received 2"),
    "placement": ({"placement": "2 ranks"}, "placement: expected one rank per GPU, received 2 ranks"),
    "num_exchanges": ({"num_exchanges": 3}, "num_exchanges: expected 10, received 3"),
    "proofs": ({"proofs_passed": 0}, "proofs_passed: expected 1, received 0"),
    "no proofs": ({"proofs_passed": None}, "proofs_passed: expected 1, received None"),
    "arm": ({"arm": "afdep"}, "arm: expected afdep@bd4db4da, received afdep"),
    "library": ({"loaded_digest": "n00000000"}, "loaded_digest: expected n12345678, received n00000000"),
    "protocol": ({"loaded_protocol": "m2n"}, "loaded_protocol: expected afdep, received m2n"),
    "switches": ({"loaded_switches": ""}, "loaded_switches: expected AFDEP_UNION_REDUCE_PREFIX=1, received "),
    "safe path": ({"safe_path": False}, "safe_path: expected True, received False"),
    "role": ({"role": "ffn"}, "role: expected attention, received ffn on rank 1"),
    "median": ({"latency_us": 19.0}, "latency_us: expected the median of samples above zero, received 19.0 on rank 1"),
    "zero": ({"latency_us": 0.0, "samples_us": (0.0,)}, "latency_us: expected the median of samples above zero"),
    "negative": ({"latency_us": -1.0, "samples_us": (-1.0,)}, "latency_us: expected the median of samples above zero"),
    "no samples": ({"samples_us": None}, "latency_us: expected the median of samples above zero"),
    "nan": ({"latency_us": float("nan")}, "latency_us: expected the median of samples above zero, received nan"),
}
"""By what is not so on one rank of the candidate: the change, and what the report says of it."""


def changed(own, change, only=lambda row: True, arm=MAIN[CANDIDATE]):
    """The records of a plan with a change in those of an arm."""
    rows = [(row, change(row) if callable(change) else change) for row in records(own)]
    return [dataclasses.replace(row, **more) if row.arm == arm and only(row) else row for row, more in rows]


def reasons(own, rows):
    return {one.reason for one in findings(own, rows).absences}


def test_records_that_are_as_planned_count():
    for own in (SIM, GPUS):
        found = findings(own, records(own))
        assert (found.absences, found.lost) == ((), ())
        assert found.comparisons[0, 8, 1].change_pct == pytest.approx(-33.3 if own is SIM else -32.8, abs=0.1)


@pytest.mark.parametrize("field", UNTRUE)
def test_a_field_that_is_not_as_planned_voids_the_cell_and_is_named(field):
    change, reason = UNTRUE[field]
    rows = changed(SIM, change, lambda row: row.rank == 1)
    found = findings(SIM, rows)
    assert [(one.arm, one.status) for one in found.absences] == [(MAIN[CANDIDATE], "void")]
    assert found.absences[0].reason.startswith(reason)
    assert found.comparisons == {}
    assert "void: 1A1F, 2,048, random, afdep@bd4db4da" in report.text(results(part(SIM, rows)))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_cell_without_one_of_its_ranks_is_void(rank):
    rows = [row for row in records(SIM) if (row.arm, row.rank) != (MAIN[CANDIDATE], rank)]
    reason = f"rank: expected each of 2, received [{1 - rank}]"
    assert reasons(SIM, rows) == {reason}
    assert reason in report.text(results(part(SIM, rows)))


def test_a_rank_that_stands_twice_is_void():
    rows = [*records(SIM), next(row for row in records(SIM) if row.arm == MAIN[BASELINE])]
    assert "rank: expected each of 2, received [0, 1, 0]" in reasons(SIM, rows)
    assert findings(SIM, rows).comparisons == {}


@pytest.mark.parametrize("arm", MAIN)
@pytest.mark.parametrize(
    ("device", "received"),
    [("NVIDIA H100", "NVIDIA H100, NVIDIA H200"), ("NVIDIA H200 NVL", "NVIDIA H200, NVIDIA H200 NVL")],
)
def test_ranks_on_gpus_of_two_types_are_void(arm, device, received):
    rows = changed(GPUS, facts(device=device), lambda row: row.rank == 1, arm)
    assert f"device: expected one H200 for every rank, received {received}" in reasons(GPUS, rows)


@pytest.mark.parametrize("change", [facts(device="NVIDIA H100"), {"observed": None}], ids=["another", "unknown"])
def test_a_cell_on_a_gpu_that_was_not_planned_is_void(change):
    assert any(one.startswith("device: expected one H200") for one in reasons(GPUS, changed(GPUS, change)))


def test_gpus_of_two_types_never_stand_in_one_table():
    own = plan(rows=(ROW,), tokens=(8,), backend=on_gpus(pairs=4), published=None)
    other = facts(device="NVIDIA H200 NVL")
    rows = [dataclasses.replace(row, **(other(row) if row.pair == 0 else {})) for row in records(own)]
    found = findings(own, rows)
    assert len(found.comparisons[0, 8, 1].pairs) == 3
    assert {(one.pair, one.status, one.reason) for one in found.absences} == {
        (0, "void", "device: expected NVIDIA H200, as of the table's other cells, received NVIDIA H200 NVL")
    }


UNLIKE = {
    "run": ({"run": "r2"}, "run r2, there r1"),
    "host": ({"host": 1}, "host 1, there 0"),
    "driver": ({"driver": "2"}, "driver 2, there 1"),
    "torch": ({"torch": "3"}, "torch 3, there 2"),
    "compiler": ({"compiler": "nvcc"}, "compiler nvcc, there gcc"),
    "gpu": ({"gpu_uuid": "GPU-9"}, "GPUs ['GPU-9', 'GPU-9'], there ['GPU-0', 'GPU-1']"),
    "device": (facts(device="NVIDIA H200 NVL"), "device ['NVIDIA H200 NVL'], there ['NVIDIA H200']"),
}


@pytest.mark.parametrize("field", UNLIKE)
def test_two_sides_that_were_not_measured_alike_are_no_pair(field):
    change, reason = UNLIKE[field]
    told = [dataclasses.replace(row, compiler="gcc") for row in records(GPUS)]
    rows = [
        dataclasses.replace(row, **(change(row) if callable(change) else change)) if row.arm == MAIN[1] else row
        for row in told
    ]
    found = findings(GPUS, rows)
    assert found.comparisons == {}
    assert {one.reason for one in found.absences} == {f"no pair with m2n: {reason}"}


@pytest.mark.parametrize("field", ["run", "host", "driver"])
def test_one_rank_that_was_not_measured_alike_is_enough(field):
    rows = changed(GPUS, UNLIKE[field][0], lambda row: row.rank == 1)
    assert findings(GPUS, rows).comparisons == {}


def test_two_arms_that_loaded_one_thing_are_no_comparison_unless_they_are_declared_so():
    own = plan(rows=(ROW,), tokens=(8,), arms=("m2n", "m2n"))
    assert reasons(own, records(own)) == {"loaded the identity of m2n without an A/A"}
    declared = plan(rows=(ROW,), tokens=(8,), arms=("m2n", "m2n"), declared_aa=True)
    assert findings(declared, records(declared)).comparisons[0, 8, 1].change_pct == 0


def test_an_aa_of_a_deterministic_machine_agrees_in_every_repeat():
    own = plan(rows=(ROW,), tokens=(8,), arms=("m2n", "m2n"), declared_aa=True, pairs=2)
    (one,) = findings(own, records(own)).comparisons.values()
    assert (one.change_pct, one.num_agreeing, len(one.pairs)) == (0, 2, 2)
    assert "Repeats that agree" not in report.text(results(part(own, records(own))))


def test_no_cell_is_lost_between_plan_and_table():
    own = plan(rows=4, pairs=2)
    kept = {(trial.row, trial.arm, trial.pair, 1) for block in own.blocks for b in block.batches for trial in b.trials}
    some = sorted(kept)[:5]
    rows = records(own, end=lambda b, t: "ok" if (t.row, t.arm, t.pair, t.tokens) in some else "missing")
    found = findings(own, rows)
    planned = sum(len(batch.trials) for block in own.blocks for batch in block.batches)
    assert found.num_ok + len(found.absences) == planned
    assert found.num_ok == 5
    assert num_missing(part(own, rows)) == planned - 5


def test_a_pair_that_lost_one_arm_does_not_count():
    own = plan(rows=(ROW,), pairs=2, tokens=(1,))
    rows = records(own, end=lambda batch, trial: "missing" if (trial.pair, trial.arm) == (1, 0) else "ok")
    assert findings(own, rows).comparisons[0, 1, 1].pairs == (Pair(30.0, 20.0),)


def test_the_slowest_attention_rank_is_the_cell():
    own = plan(rows=1, tokens=(1,))
    slow = {2: (33.0, 33.0, 33.0), 0: (99.0, 99.0, 99.0)}  # rank 0 is an FFN rank
    rows = [
        dataclasses.replace(row, samples_us=slow[row.rank], latency_us=slow[row.rank][0])
        if row.rank in slow and row.arm == "m2n"
        else row
        for row in records(own)
    ]
    assert findings(own, rows).comparisons[0, 1, 1].baseline_us == 33.0


def again(rows, us, **changes):
    """The same cells measured once more."""
    samples = {0: (us - 0.5,), 1: (us,)}
    more = [{"samples_us": samples[row.rank], "latency_us": samples[row.rank][0], **changes} for row in rows]
    return [dataclasses.replace(row, **one) for row, one in zip(rows, more, strict=True)]


def test_a_cell_measured_twice_counts_once_by_its_latest_attempt():
    found = findings(SIM, [*records(SIM), *again(records(SIM), 31.0, attempt=2, run="r2")])
    assert found.num_ok == 2
    assert found.comparisons[0, 8, 1].pairs == (Pair(31.0, 31.0),)


def test_two_runs_that_measured_everything_at_once_give_one_pair_of_one_of_them():
    found = findings(SIM, [*records(SIM), *again(records(SIM), 31.0, run="r2")])
    assert (found.num_ok, found.absences) == (2, ())
    assert found.comparisons[0, 8, 1].pairs in ((Pair(30.0, 20.0),), (Pair(31.0, 31.0),))


@pytest.mark.parametrize("status", ["failed", "void"])
def test_attempts_that_were_lost_are_listed_beside_the_cells_that_count(status):
    lost = records(SIM, end=lambda batch, trial: status)
    rows = [*lost, *again(records(SIM), 30.0, attempt=2)]
    found = findings(SIM, rows)
    assert (found.num_ok, found.absences) == (2, ())
    assert [(one.arm, one.status, one.reason) for one in found.lost] == [
        (arm, status, f"made {status}") for arm in MAIN
    ]
    text = report.text(results(part(SIM, rows)))
    assert f"- {status}, measured again: 1A1F, 2,048, random, m2n, pair 1, T = 8: made {status}" in text


def test_a_ledger_takes_no_pair_of_two_runs_for_whole(tmp_path):
    rows = changed(SIM, {"run": "r2"})
    file = lay(tmp_path, SIM, rows)
    ledger = Ledger(file, tmp_path / "records" / file.plan_hash, lambda: None, None)
    assert len(ledger.missing(0)) == 2
    whole = lay(tmp_path / "whole", SIM, records(SIM))
    again = Ledger(whole, tmp_path / "whole" / "records" / whole.plan_hash, lambda: None, None)
    assert again.missing(0) == []
