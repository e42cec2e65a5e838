"""Fits: they find what their data were made with, from the declared rows alone, and say what the data do not tell."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from afdep import BuildError, MachineError
from harness.config.compose import compose
from harness.core.codec import decode, encode
from harness.errors import HarnessError
from harness.studies.fit import program
from harness.studies.fit.findings import identification, movers, refits
from harness.studies.fit.fit import NO_EFFECT, Settings
from harness.studies.fit.search import LackingError, Memo, slope_of
from harness.study import Ended
from tests.studies import fits
from tests.studies.bench import ROOT, Alone, edit
from tests.studies.fits import HBM, LATENCY, POWERS, RATE, by_arm, powers_of, published, solved, two_rows, with_free

ONE_CELL = ("layout=2A2F", "hidden=2048", "dtype=bf16", "routing=random", "tokens=[1]", "fit.slope_exchanges=2")
TRUTH = {LATENCY: 650.0, RATE: 250.0}


def test_a_fit_finds_the_constants_that_its_data_were_made_with():
    fit = solved(with_free(fits.with_targets(two_rows(), POWERS, **TRUTH), TRUTH), POWERS)
    assert fit.found == pytest.approx(TRUTH, rel=1e-3)
    assert fit.steps[0].rms_pct > 3 > 0.1 > min(step.rms_pct for step in fit.steps)


def test_a_fit_to_the_simulators_own_cells_finds_the_changed_constant():
    read = published(*ONE_CELL, "backend.num_exchanges=1", "fit.evaluations=3", free=[LATENCY], only=[LATENCY])
    truth = [fits.judged(read, one, simulated(read, one)).latency_us for one in cells_with(read, {LATENCY: 700.0})]
    assert solved(fits.with_us(read, truth)).found[LATENCY] == pytest.approx(700.0, rel=0.01)


def simulated(read, trial):
    return program.simulate(read, trial, program.world(read, trial))


def cells_with(read, values):
    """Every cell with these constants."""
    return Memo(read, {}).timed(range(len(read.cells)), values)


@pytest.mark.parametrize(("layout", "enters"), [("3A1F", False), ("2A2F", True)], ids=["held out", "fitted"])
def test_the_fitted_rows_alone_decide(layout, enters):
    read = with_free(fits.with_targets(two_rows(), POWERS, **{LATENCY: 650.0}), [LATENCY, RATE])
    rows = [read.series[cell.row].row for cell in read.cells]
    us = [cell.us * (1.2 if row.layout == layout else 1.0) for cell, row in zip(read.cells, rows, strict=True)]
    assert (solved(fits.with_us(read, us), POWERS).found != solved(read, POWERS).found) is enters


def noisy(names, powers):
    """A fit to data with a little noise, so that there is a residual."""
    us_of = powers_of(powers)
    read = with_free(fits.with_targets(two_rows(), us_of), names)
    us = [cell.us * (0.999 if cell.arm else 1 + 0.001 * (cell.tokens % 5)) for cell in read.cells]
    return solved(fits.with_us(read, us), us_of)


def verdicts(names, powers):
    found = identification(noisy(names, powers))
    return {name: found.verdict(name) for name in names}


def test_constants_that_act_alike_are_not_identified():
    def alike(read, at):
        own = by_arm(read, at)
        return {LATENCY: own[LATENCY], "fence_ns": 2 * own[LATENCY], RATE: own[RATE]}

    found = verdicts([LATENCY, "fence_ns", RATE], alike)
    assert found[LATENCY] == "not identified: collinear with fence_ns"
    assert found["fence_ns"] == f"not identified: collinear with {LATENCY}"
    assert found[RATE] == "identified"


def test_constants_that_act_apart_are_identified():
    assert verdicts([LATENCY, RATE], by_arm) == {LATENCY: "identified", RATE: "identified"}


def test_a_constant_without_effect_is_not_identified_and_alone_mends_nothing():
    assert verdicts([LATENCY, "atomic_ns"], by_arm)["atomic_ns"].startswith("not identified: its whole range moves")
    fit = noisy([LATENCY, RATE], by_arm)
    silent = movers(fit, fit.settings.where(row=0)).set_index("name").loc["atomic_ns"]
    assert (silent.change_pct, silent.rms_pct) == (0.0, pytest.approx(refits(fit, 0)["simulated: rms, %"]))


def test_three_constants_that_add_up_have_a_condition_without_bound():
    def sums(read, at):
        own = by_arm(read, at)
        return {LATENCY: own[LATENCY], RATE: own[RATE], "fence_ns": own[LATENCY] - own[RATE]}

    found = identification(noisy([LATENCY, RATE, "fence_ns"], sums))
    assert found.condition > 1e6
    assert found.constants.share.to_numpy() == pytest.approx(1.0)
    assert not any(found.verdict(name) == "identified" for name in found.constants.index)


def test_a_row_alone_is_mended_by_what_made_it_differ_and_a_row_left_out_is_not():
    def bent(read, at):
        extra = {"fence_ns": 0.3} if read.place(at)[1].row.layout == "3A1F" else {}
        return {**by_arm(read, at), **extra}

    us_of = powers_of(bent)
    fit = solved(with_free(fits.with_targets(two_rows(), us_of, fence_ns=800.0), [LATENCY, RATE, "fence_ns"]), us_of)
    now, without, without_simulated, alone, alone_simulated, _ = refits(fit, 1).values()
    assert now > 8 > 1 > alone_simulated
    assert alone == pytest.approx(alone_simulated, abs=0.5)
    assert without_simulated == pytest.approx(without) == pytest.approx(now)
    assert movers(fit, fit.settings.where(row=1)).name.iloc[0] == "fence_ns"


def slopes(read, names, cells, us_of=None):
    """Slopes [constant, cell] at the machine file."""
    known = {trial: fits._row(read, trial, us_of) for trial in Memo(read, {}).stepped(names, cells, {})}
    return Memo(read, known).slopes(names, cells, {})[0]


def test_slopes_are_those_of_the_cells_powers():
    read = two_rows()
    found = slopes(read, [LATENCY, HBM], read.where(row=0), POWERS).reshape(2, 6, 2)
    assert found[0, 0] == pytest.approx([0.4, 0.2])
    shares = [np.log2(tokens) / 11 for tokens in (1, 8, 32, 128, 512, 2048)]
    assert found[1] == pytest.approx(np.array([[-0.1 * share**2] * 2 for share in shares]))


def test_a_slope_has_its_standard_error_over_exchanges_and_one_exchange_none():
    before, after = np.full((2, 3), 10.0), 10.0 * np.exp([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    assert slope_of(before, after, 2.0) == pytest.approx((0.1, 0.05 / 3**0.5))
    assert np.isnan(slope_of(before[:, :1], after[:, :1], 2.0)[1])


@pytest.mark.parametrize(("tokens", "exchanges"), [(0, 3), (8, 3), (512, 2), (2048, 1)])
def test_a_slope_has_fewer_exchanges_where_they_have_many_tokens(tokens, exchanges):
    read = two_rows()
    read = replace(read, cells=(replace(read.cells[0], tokens=tokens),))
    assert {trial.num_exchanges for trial in Memo(read, {}).stepped([LATENCY], [0], {})} == {exchanges}


def test_memory_bandwidth_does_nothing_at_one_token_where_the_link_counts():
    found = slopes(published(*ONE_CELL), [HBM, LATENCY], [0, 1])
    assert np.abs(found[0]).max() < 0.005
    assert found[1].min() > 0.05


def test_constants_of_which_no_slope_is_taken_move_no_cell_of_the_published_arms():
    read = published("tokens=[128]", "fit.slope_exchanges=1")
    silent = [one.name for one in read.constants if one.kind == NO_EFFECT]
    found = slopes(read, [*silent, "sm_load_gb_per_s"], range(len(read.cells)))
    assert (len(silent), len(read.cells)) == (1, 12)
    assert not found[:-1].any()
    assert found[-1].all()


def test_room_in_l1_counts_for_the_arm_of_one_ffn_rank_that_is_not_published():
    read = published(*fits.SMALL, "tokens=[128]", "arm=[m2n,afdep]", "fit.slope_exchanges=1")
    found = slopes(read, ["sm_load_l1_gb_per_s"], range(4))
    assert (found[0] != 0).tolist() == [False, False, False, True]


def test_a_cell_is_its_slowest_ranks_median_or_mean_where_a_replay_is_one():
    samples, read = [[1.0, 9.0, 2.0], [3.0, 3.5, 0.0]], two_rows()
    medians = fits.judged(read, program.Trial(0, 3), samples)
    means = fits.judged(replace(read, target="measured"), program.Trial(0, 3), samples)
    assert (medians.latency_us, medians.reducer) == (3.0, "median")
    assert (means.latency_us, means.reducer) == (4.0, "mean")
    assert medians.samples_us == (1.0, 9.0, 2.0, 3.0, 3.5, 0.0)


def test_a_measured_cell_is_simulated_with_one_load_and_a_published_one_with_routes_of_each_exchange(monkeypatch):
    drawn = []
    monkeypatch.setattr(program.loads, "make", lambda *told: drawn.append(told[-1]) or ["load"] * told[-1])
    layout = SimpleNamespace(attention_rank_ids=[0])
    made = SimpleNamespace(layout=layout, time_exchanges=lambda sent, bucket: SimpleNamespace(per_rank_us=[sent]))
    read, trial = two_rows(), program.Trial(0, 3)
    both = [program.simulate(replace(read, target=target), trial, made) for target in ("published", "measured")]
    assert (drawn, both) == ([3, 1], [[["load"] * 3]] * 2)


def test_a_process_says_the_cells_in_order_once_the_library_is_the_planned_one(monkeypatch):
    built = {"code_digest": "c1", "compiler": "g++"}
    monkeypatch.setattr(program.contract, "built", lambda backend: built)
    read = published(*ONE_CELL, "backend.num_exchanges=1")
    group, trials = Alone(read), (program.Trial(1, 1), program.Trial(0, 1, ((LATENCY, 700.0),)))
    said = list(program.run(program.Batch(trials), group))
    assert [one.trial for one in said] == [0, 1]
    assert said[1].facts["samples_us"] == simulated(read, trials[1]) != simulated(read, replace(trials[1], changes=()))
    assert [arm for arm, _ in group.checked] == ["afdep@bd4db4da", "m2n"]
    assert (group.turns, group.opened) == (1, built)


def test_a_failed_cell_has_a_row_that_names_it_and_ends_the_fit():
    read = with_free(fits.with_targets(two_rows(), POWERS), [LATENCY])
    first = [trial for block in program.blocks(read, ()) for batch in block.batches for trial in batch.trials]
    rows = [fits._row(read, trial, POWERS) for trial in first]
    ended = Ended({}, endings={0: "exit 1"})
    rows[0] = program.judge(SimpleNamespace(settings=read), None, first[0], ended)[0]
    assert (rows[0].status, rows[0].reason, rows[0].trial) == ("failed", "exit 1", first[0])
    assert program.blocks(read, rows) == ()
    with pytest.raises(LackingError):
        program.solved(read, rows)


def test_rounds_hold_each_cell_once_and_no_batch_holds_all_the_dear_ones():
    read = published()
    blocks = program.blocks(read, ())
    trials = [trial for block in blocks for batch in block.batches for trial in batch.trials]
    assert len(trials) == len(set(trials)) == 72 + 72 + 36 * 72 + 72
    dear = [sum(read.cells[one.cell].tokens == 2048 for one in block.batches[0].trials) for block in blocks]
    assert (len(blocks), max(dear) - min(dear)) == (8, 1)


def test_the_next_round_is_the_same_whatever_the_order_of_the_rows():
    read = with_free(fits.with_targets(two_rows(), POWERS, **TRUTH), TRUTH)
    first = [trial for block in program.blocks(read, ()) for batch in block.batches for trial in batch.trials]
    rows = [fits._row(read, trial, POWERS) for trial in first]
    assert program.blocks(read, rows) == program.blocks(read, rows[::-1]) != ()
    assert program.blocks(read, rows[:-1])[0].batches[0].trials == (first[-1],)


def test_settings_are_read_from_a_plan_as_they_were_written():
    read = two_rows()
    assert decode(Settings, json.loads(json.dumps(encode(read), sort_keys=True))) == read


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["fit.constants={acquire_ns:{lower:600,upper:1000}}"], "expected bounds around 500"),
        (["fit.rows=[{layout:5A1F,hidden:2048,dtype:bf16,routing:random}]"], "rows with figures of the first"),
        (["fit.rows=[]"], "rows with figures of the first, received m2n, afdep@bd4db4da and none"),
        (["fit.arms=[m2n]"], "expected two arms, and rows"),
        (["fit.evaluations=0"], "1 or more"),
        (["fit.step_down=[sm_load_l1_gb_per_s]"], "what has no_effect neither in constants nor in step_down"),
        (["fit.step=-1"], "fit.step: expected 0.001 to 10"),
        (["fit.reach=1"], "fit.reach: expected 1.001 or more"),
        (["tokens=[3]"], "expected a published figure"),
        (["arm=[m2n,afdep,afdep@bd4db4da]"], "expected two arms on the simulator"),
        (["screen.published=none"], "beside a published table, received 2 arms on sim beside none"),
        (["screen.published=nothere"], "expected a known id, received 'nothere'"),
        (["backend.machine=b200"], "machine: expected a known name, received 'b200'"),
        (["source=records/screen/h200"], "source: expected none beside published figures"),
    ],
    ids=lambda value: value[0][:24] if isinstance(value, list) else None,
)  # fmt: skip
def test_a_setting_of_no_use_is_refused(texts, words):
    with pytest.raises((HarnessError, MachineError), match=words) as caught:
        published(*texts)
    assert len(str(caught.value).splitlines()) == 2


@pytest.fixture
def copied(tmp_path):
    """What a fit reads of the repository, in a folder of its own."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    shutil.copytree(ROOT / "records" / "published", tmp_path / "records" / "published")
    return tmp_path


def test_a_constant_that_the_machine_lacks_is_refused_with_its_names(copied):
    edit(copied / "conf" / "fit" / "main.yaml", "acquire_ns:", "aquire_ns:")
    with pytest.raises(HarnessError, match="received 'aquire_ns'") as caught:
        published(root=copied)
    assert "did you mean acquire_ns?" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [("1", "unknown machine constant 'surprise_ns'"), ("many", "expected a finite number")],
    ids=["unknown", "no number"],
)
def test_a_machine_whose_constants_are_not_the_cost_models_is_refused(copied, value, words):
    path = copied / "conf" / "machine" / "h100-nvlink.yaml"
    path.write_text(path.read_text() + f"surprise_ns: {{value: {value}, unit: ns, source: none}}\n")
    with pytest.raises((BuildError, MachineError), match=words):
        program.world(published(root=copied), program.Trial(0, 1))


def test_a_plan_asks_for_both_arms_on_the_fitted_machine():
    from harness.desk import run
    from tests.studies.bench import desk_at

    config = compose("study/fit", ONE_CELL, ROOT / "conf")
    del config["launcher"]
    asked = run.wanted_of("fit", config, desk_at(ROOT, [])).arms
    assert [(one.name, one.backend, one.shape["machine"]) for one in asked] == [
        ("m2n", "sim", "h100-nvlink"), ("afdep@bd4db4da", "sim", "h100-nvlink"),
    ]  # fmt: skip
