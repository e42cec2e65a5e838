"""Fits: they find what their data were made with, from the declared rows alone, and say what the data do not tell."""

import dataclasses

import numpy as np
import pytest

from afdep import BuildError, MachineError
from harness.errors import HarnessError
from harness.fit import slopes as slopes_of_cells
from harness.fit.cells import Task, cell_us, runner
from harness.fit.experiment import Experiment, perform
from harness.fit.identify import identify
from harness.fit.leave_out import leave_one_out, movers
from harness.fit.solve import solve
from harness.fit.study import Study
from tests.harness.fits import AROUND, copied_repository, power_runner, settings, two_rows, with_published

ONE_CELL = ("layout=2A2F", "hidden=2048", "dtype=bf16", "routing=random", "tokens=[1]", "fit.most_exchanges=2")
LATENCY, RATE, HBM = "nvlink_latency_ns", "nvlink_gb_per_s", "hbm_gb_per_s"


def powers(task):
    """Latency counts for the baseline and with few tokens, the link's rate with many."""
    share = np.log2(task.tokens) / 11
    return {LATENCY: (0.4 if task.arm == "m2n" else 0.2) * (1 - share), RATE: -0.8 * share, HBM: -0.1 * share**2}


def with_truth(read, run, **changes):
    """The settings with what the runner gives on a changed machine as their published figures."""
    experiment = Experiment(read, run, AROUND, AROUND.timed_lines())
    us = experiment.table(range(len(read.screen.rows)), changes)
    places = {(row.layout, row.hidden): index for index, row in enumerate(read.screen.rows)}
    tokens = read.screen.tokens

    def us_of(point):
        row = places.get((point.layout, point.hidden))
        known = row is not None and point.tokens in tokens
        return tuple(map(float, us[row, tokens.index(point.tokens)])) if known else (1.0, 1.0)

    return with_published(read, us_of)


def done(read, run):
    """The fit of these settings, and what it found, by constant."""
    fit = perform(read, run, "python -m harness fit", AROUND)
    return fit, {one.name: one.refitted for one in fit.constants if one.refitted is not None}


def test_a_fit_finds_the_constants_that_its_data_were_made_with():
    run, truth = power_runner(powers), {LATENCY: 650.0, RATE: 250.0}
    read = dataclasses.replace(with_truth(two_rows(), run, **truth), free=settings(free=truth).free)
    fit, found = done(read, run)
    assert found == pytest.approx(truth, rel=1e-3)
    assert fit.steps[0].rms_pct > 3 > 0.1 > min(step.rms_pct for step in fit.steps)


def test_a_fit_to_the_simulators_own_cells_finds_the_changed_constant():
    read = settings(*ONE_CELL, "backend.num_exchanges=2", free=[LATENCY])
    with runner(1) as run:
        read = with_truth(read, run, **{LATENCY: 700.0})
        experiment = Experiment(read, run, AROUND, AROUND.timed_lines())
        studied = [one.name for one in read.studied]
        problem = experiment.problem(experiment.table([0], {}), experiment.slopes(studied, [0], {}))
        best = solve(problem, 6)
    assert best.values[0] == pytest.approx(700.0, rel=0.01)


@pytest.mark.parametrize(("layout", "enters"), [("3A1F", False), ("2A2F", True)], ids=["held out", "fitted"])
def test_the_fitted_rows_alone_decide(layout, enters):
    run, free = power_runner(powers), settings(free=[LATENCY, RATE]).free
    read = dataclasses.replace(with_truth(two_rows(), run, **{LATENCY: 650.0}), free=free)
    cells = read.table.cells
    twice = {point: 1.2 if point.layout == layout else 1.0 for point in cells}
    other = with_published(read, lambda p: (cells[p].baseline_us * twice[p], cells[p].candidate_us * twice[p]))
    found, changed = done(read, run)[1], done(other, run)[1]
    assert (changed != found) is enters


def study_of(names, power):
    """A study of data with a little noise, so that there is a residual."""
    run = power_runner(power)
    read = dataclasses.replace(with_truth(two_rows(), run), free=settings(free=names).free)
    cells = read.table.cells
    noisy = with_published(
        read, lambda p: (cells[p].baseline_us * (1 + 0.001 * (p.tokens % 5)), cells[p].candidate_us * 0.999)
    )
    return Study(done(noisy, run)[0])


def verdicts(names, power):
    found = identify(study_of(names, power))
    return {name: found.verdict(index) for index, name in enumerate(found.names)}


def test_constants_that_act_alike_are_not_identified():
    def alike(task):
        return {LATENCY: powers(task)[LATENCY], "fence_ns": 2 * powers(task)[LATENCY], RATE: powers(task)[RATE]}

    found = verdicts([LATENCY, "fence_ns", RATE], alike)
    assert found[LATENCY] == "not identified: collinear with fence_ns"
    assert found["fence_ns"] == f"not identified: collinear with {LATENCY}"
    assert found[RATE] == "identified"


def test_constants_that_act_apart_are_identified():
    assert verdicts([LATENCY, RATE], powers) == {LATENCY: "identified", RATE: "identified"}


def test_a_constant_without_effect_is_not_identified_and_alone_mends_nothing():
    assert verdicts([LATENCY, "atomic_ns"], powers)["atomic_ns"].startswith("not identified: its whole range moves")
    study = study_of([LATENCY, RATE], powers)
    silent = next(move for move in movers(study, 0) if move.name == "atomic_ns")
    assert (silent.change_pct, silent.row_pct) == (0.0, pytest.approx(leave_one_out(study)[0].now_pct))


def test_three_constants_that_add_up_have_a_condition_without_bound():
    def sums(task):
        one = powers(task)
        return {LATENCY: one[LATENCY], RATE: one[RATE], "fence_ns": one[LATENCY] - one[RATE]}

    found = identify(study_of([LATENCY, RATE, "fence_ns"], sums))
    assert found.condition > 1e6
    assert found.span_shares == pytest.approx(1.0)
    assert not any(found.verdict(index) == "identified" for index in range(3))


def test_a_row_alone_is_mended_by_what_made_it_differ_and_a_row_left_out_is_not():
    def bent(task):
        extra = {"fence_ns": 0.3} if task.row.layout == "3A1F" else {}
        return powers(task) | extra

    run, free = power_runner(bent), settings(free=[LATENCY, RATE, "fence_ns"]).free
    read = dataclasses.replace(with_truth(two_rows(), run, fence_ns=800.0), free=free)
    study = Study(done(read, run)[0])
    other = leave_one_out(study)[1]
    assert other.now_pct > 8 > 1 > other.alone_simulated_pct
    assert other.alone_pct == pytest.approx(other.alone_simulated_pct, abs=0.5)
    assert other.without_simulated_pct == pytest.approx(other.without_pct) == pytest.approx(other.now_pct)
    assert movers(study, 1)[0].name == "fence_ns"


def test_slopes_are_those_of_the_cells_powers():
    read, task = two_rows(), {}
    found = slopes_of_cells.measure(read, [LATENCY, HBM], [0], task, power_runner(powers), lambda *_: None)
    assert found.slope[0, 0, 0] == pytest.approx([0.4, 0.2])
    assert found.slope[1, 0] == pytest.approx(
        np.array([-0.1 * (np.log2(t) / 11) ** 2 for t in read.screen.tokens] * 2).reshape(2, -1).T
    )


def test_memory_bandwidth_does_nothing_at_one_token_where_the_link_counts():
    read = settings(*ONE_CELL)
    with runner(1) as run:
        found = slopes_of_cells.measure(read, [HBM, LATENCY], [0], {}, run, lambda *_: None).slope
    assert np.abs(found[0]).max() < 0.005
    assert found[1].min() > 0.05


def test_constants_of_which_no_slope_is_taken_move_no_cell_of_the_published_arms():
    read = settings("tokens=[128]", "fit.most_exchanges=1")
    names = [*read.no_effect, "sm_load_gb_per_s"]
    with runner(1) as run:
        found = slopes_of_cells.measure(read, names, range(6), {}, run, lambda *_: None).slope
    assert len(names) > 1
    assert not found[:-1].any()
    assert found[-1].all()


def test_room_in_l1_counts_for_the_arm_of_one_ffn_rank_that_is_not_published():
    read = settings(
        "layout=[2A2F,3A1F]", "hidden=2048", "dtype=bf16", "routing=random", "tokens=[128]", "arm=[m2n,afdep]"
    )
    with runner(1) as run:
        found = slopes_of_cells.measure(read, ["sm_load_l1_gb_per_s"], [0, 1], {}, run, lambda *_: None).slope
    assert (found[0, :, 0] != 0).tolist() == [[False, False], [False, True]]


def test_what_a_cell_gives_does_not_depend_on_the_processes():
    read = settings(*ONE_CELL)
    tasks = [Task(read.bench, read.screen.rows[0], 1, arm.name, {LATENCY: 600.0}, 2) for arm in read.screen.arms]
    with runner(1) as here, runner(2) as there:
        assert list(here(tasks)) == list(there(tasks))


def test_a_cell_is_its_slowest_ranks_median():
    assert cell_us(((1.0, 9.0, 2.0), (3.0, 3.5, 0.0))) == 3.0


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["fit.constants={acquire_ns:{lower:600,upper:1000}}"], "expected bounds around 500"),
        (["fit.rows=[{layout:5A1F,hidden:2048,dtype:bf16,routing:random}]"], "expected a row of the screen"),
        (["fit.evaluations=0"], "at least 1"),
        (["fit.step_down=[sm_load_l1_gb_per_s]"], "fit.no_effect: expected constants that the fit leaves alone"),
        (["fit.step=-1"], "expected a number of at least 0"),
        (["tokens=[3]"], "expected a published figure"),
        (["arm=[m2n,afdep,afdep@bd4db4da]"], "expected two arms on the simulator"),
        (["write=conf/machine/h100-nvlink.yaml"], "expected the path of a new .yaml file"),
        (["keep=../x"], "small letters"),
    ],
    ids=lambda value: value[0][:24] if isinstance(value, list) else None,
)  # fmt: skip
def test_a_setting_of_no_use_is_refused(texts, words):
    with pytest.raises(HarnessError, match=words) as caught:
        settings(*texts)
    assert len(str(caught.value).splitlines()) == 2


def test_a_constant_that_the_machine_lacks_is_refused_with_its_names(tmp_path):
    path = copied_repository(tmp_path) / "conf" / "fit" / "main.yaml"
    path.write_text(path.read_text().replace("acquire_ns:", "aquire_ns:"))
    with pytest.raises(HarnessError, match="received 'aquire_ns'") as caught:
        settings(repository=tmp_path)
    assert "did you mean acquire_ns?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("surprise_ns: {value: 1, unit: ns, source: none}\n", BuildError, "unknown machine constant 'surprise_ns'"),
        ("surprise_ns: {value: many, unit: ns, source: none}\n", MachineError, "expected a finite number"),
    ],
    ids=["unknown", "no number"],
)
def test_a_machine_whose_constants_are_not_the_cost_models_is_refused(tmp_path, text, error, words):
    copied = copied_repository(tmp_path)
    path = copied / "conf" / "machine" / "h100-nvlink.yaml"
    path.write_text(path.read_text() + text)
    with pytest.raises(error, match=words):
        settings(repository=copied)
