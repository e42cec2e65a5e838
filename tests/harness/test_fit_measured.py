"""Fits to measured round trips: one arm decides, starts are told apart, what is no use is refused or listed."""

import dataclasses

import pytest

from harness.errors import HarnessError
from harness.fit import measured
from harness.fit.measured.study import HELD_OUT_ARM, REFITTED, SIMULATED, rms_pct
from harness.records import RecordError
from harness.records.measured_fits import read_measured_fit, write_measured_fit
from tests.harness.device_records import (
    FREE,
    ROW,
    WIDE,
    device_plan,
    fitted,
    lay,
    power_device,
    read,
)
from tests.harness.fits import copied_repository

TOKENS = (1, 8, 32, 128, 512, 2048)
TRUTH = {"l2_bytes": 22e6, "grid_sync_ns": 1100.0, "nvlink_gb_per_s": 325.0}
SMALL = "fit.rows=[{layout:1A1F,hidden:2048,dtype:bf16,routing:random,transport_sms:24}]"


def screens(folder, start_us=0.0, free=True, **device):
    """Two rows behind host barriers, and one of them free-running as well."""
    for row in (ROW, WIDE):
        lay(folder, device_plan(row, tokens=TOKENS), power_device(start_us, **TRUTH, **device))
    if free:
        lay(folder, device_plan(tokens=TOKENS, device=FREE), power_device(**TRUTH, **device))
    return folder


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    return fitted(read(screens(tmp_path_factory.mktemp("fit") / "h200", start_us=60.0)))


def test_a_fit_to_one_arm_finds_the_figures_of_the_other(fit):
    held_out = fit[0].where(arm=HELD_OUT_ARM)
    assert len(held_out) == 2 * len(TOKENS)
    assert rms_pct(held_out, SIMULATED) > 3 > 0.5 > rms_pct(held_out, REFITTED)


def test_only_cells_of_the_fitted_arm_in_the_named_rows_are_fitted_on(tmp_path):
    study, _ = fitted(read(screens(tmp_path), SMALL))
    assert {(cell.arm, cell.hidden) for cell in study.where(fitted=True)} == {(0, 2048)}
    assert len(study.where(fitted=True)) == len(TOKENS)


@pytest.mark.parametrize(("arm", "enters"), [("afdep", False), ("m2n", True)])
def test_the_fitted_arm_alone_decides(fit, tmp_path, arm, enters):
    usual = power_device(60.0, **TRUTH)
    for row in (ROW, WIDE):
        lay(tmp_path, device_plan(row, tokens=TOKENS), lambda at: usual(at) * (1.2 if at.arm == arm else 1.0))
    lay(tmp_path, device_plan(tokens=TOKENS, device=FREE), lambda at: usual(at) * (1.2 if at.arm == arm else 1.0) - 3)
    found = fitted(read(tmp_path))[1]
    assert (found != pytest.approx(fit[1], rel=1e-9)) is enters


def test_a_start_is_taken_off_by_name_and_not_fitted_away(fit, tmp_path):
    assert fit[0].fit.run.start_us == pytest.approx(60.0)
    without = fitted(read(screens(tmp_path)))
    assert without[0].fit.run.start_us == pytest.approx(0.0, abs=1e-9)
    assert fit[1] == pytest.approx(without[1], rel=1e-6)
    assert {cell.timing for cell in fit[0].where(hidden=2048)} == {"free-running"}
    assert {cell.timing for cell in fit[0].where(hidden=4096)} == {"start taken off"}
    assert "60 us, the median over the cells of m2n that were timed both ways" in measured.text("x", fit[0])


def test_an_unknown_start_stays_in_and_the_page_says_so(tmp_path):
    study, _ = fitted(read(screens(tmp_path, start_us=60.0, free=False)))
    assert study.fit.run.start_us is None
    assert {cell.timing for cell in study.fit.cells} == {"behind barriers"}
    assert "24 cells were timed behind host barriers alone" in measured.text("x", study)


def test_the_held_out_arms_own_starts_are_not_used(tmp_path):
    both = power_device(60.0, **TRUTH)
    lay(tmp_path, device_plan(tokens=TOKENS), lambda at: both(at) + (9.0 if at.arm == "afdep" else 0.0))
    lay(tmp_path, device_plan(tokens=TOKENS, device=FREE), power_device(**TRUTH))
    assert fitted(read(tmp_path, SMALL))[0].fit.run.start_us == pytest.approx(60.0)


def test_a_cell_that_is_void_failed_or_missing_is_left_out_and_listed(tmp_path):
    ends = {1: "void", 8: "failed", 32: "missing"}
    lay(tmp_path, device_plan(tokens=TOKENS), power_device(), lambda at, pair: ends.get(at.cell.tokens, "ok"))
    study, _ = fitted(read(tmp_path, SMALL))
    assert sorted({cell.tokens for cell in study.fit.cells}) == [128, 512, 2048]
    assert {(one.status, one.reason) for one in study.fit.absences} == {
        ("void", "made void"), ("failed", "made failed"), ("missing", "not run"),
    }  # fmt: skip
    assert "- void: 1A1F, 2,048, random, 24 SMs, afdep, pair 1, T = 1, plan p" in measured.text("x", study)


def test_missing_cells_of_one_process_stand_together(tmp_path):
    gone = (1, 8, 512)
    lay(
        tmp_path,
        device_plan(tokens=TOKENS),
        power_device(),
        lambda at, _: "missing" if at.cell.tokens in gone else "ok",
    )
    text = measured.text("x", fitted(read(tmp_path, SMALL))[0])
    assert text.count("- missing: ") == 2 * 2
    assert "m2n, pair 2, T = 1, 8, 512, plan p" in text


def test_a_cell_counts_with_the_pairs_that_it_has(tmp_path):
    lay(tmp_path, device_plan(), power_device(), lambda at, pair: "void" if pair else "ok")
    study, _ = fitted(read(tmp_path, SMALL))
    assert {len(cell.behind_us) for cell in study.fit.cells} == {1}
    assert len(study.fit.absences) == 4


def test_a_damaged_file_is_listed(tmp_path):
    lay(tmp_path, device_plan(), power_device())
    first = min(tmp_path.rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-20])
    study, _ = fitted(read(tmp_path, SMALL))
    assert [one.what for one in study.fit.absences if one.status == "quarantined"] == [first.name]


def test_eager_and_shared_gpus_are_another_matter_and_sms_another_row(tmp_path):
    lay(tmp_path, device_plan(), power_device())
    lay(tmp_path, device_plan(mode="eager"), lambda at: 999.0)
    lay(tmp_path, device_plan(transport_sms=64), power_device())
    found = read(tmp_path, SMALL).targets
    assert [one.label for one in found.series] == ["1A1F, 2,048, random, 24 SMs", "1A1F, 2,048, random, 64 SMs"]
    assert max(max(one.behind_us) for one in found.cells.values()) < 100


def test_a_held_out_arm_that_was_not_measured_is_said(tmp_path):
    lay(tmp_path, device_plan(arms=("m2n", "afdep@bd4db4da")), power_device(), lambda at, pair: "ok")
    text = measured.text("x", fitted(read(tmp_path, SMALL))[0])
    assert "No cell of afdep was measured" in text


def mixed(folder):
    lay(folder, device_plan(digest="n11111111"), power_device())
    return lay(folder, device_plan(WIDE, digest="n22222222"), power_device())


REFUSED = {
    "no fitted arm": (
        lambda folder: lay(folder, device_plan(), power_device(), lambda at, _: "ok" if at.arm == "afdep" else "void"),
        (), "expected measured cells of m2n, in graphs with a GPU a rank, received 2 of afdep alone",
    ),
    "nothing ok": (
        lambda folder: lay(folder, device_plan(), power_device(), lambda at, _: "failed"), (), "received none",
    ),
    "no plan": (lambda folder: folder.mkdir() or folder, (), "expected at least one, received none"),
    "two digests": (mixed, (), r"one native digest, received n11111111 \(as plan p.*n22222222"),
    "no such digest": (mixed, ("digest=n33333333",), "expected measured cells of m2n of n33333333"),
    "row not measured": (lambda folder: screens(folder), (SMALL.replace("bf16", "fp8"),), "expected rows with"),
    "replays of two lengths": (
        lambda folder: lay(lay(folder, device_plan(), power_device()), longer(), power_device()),
        (SMALL,), r"one number of exchanges, received \[20, 40\]",
    ),
    "a start beyond the time": (
        lambda folder: lay(lay(folder, device_plan(), power_device(700.0)), device_plan(WIDE), lambda at: 9.0)
        and lay(folder, device_plan(device=FREE), power_device()),
        (SMALL,), "received 9.0 us an exchange and a start of 700 us a replay",
    ),
    "a reach of one": (lambda folder: screens(folder), ("fit.reach=1",), "expected a factor above 1"),
    "an axis": (lambda folder: screens(folder), ("hidden=2048",), "hidden: expected no such key beside fit=measured"),
    "bounds": (
        lambda folder: screens(folder), ("fit.constants.l2_bytes.upper=9000000",), "expected bounds around 1.5e\\+07",
    ),
}  # fmt: skip


def longer():
    plan = device_plan()
    return dataclasses.replace(plan, backend=dataclasses.replace(plan.backend, num_exchanges=40))


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fitted_to_is_refused_in_two_lines(tmp_path, case):
    make, texts, words = REFUSED[case]
    with pytest.raises(HarnessError, match=words) as caught:
        read(make(tmp_path / "h200"), *texts)
    assert len(str(caught.value).splitlines()) == 2


def test_one_of_two_digests_can_be_chosen(tmp_path):
    found = read(mixed(tmp_path), SMALL, "digest=n11111111").targets
    assert (found.digest, len(found.plans)) == ("n11111111", 1)


def test_other_sources_than_the_measured_ones_are_told(tmp_path):
    study, _ = fitted(read(mixed(tmp_path), SMALL, "digest=n11111111"))
    assert "**The sources are not the same**: measured was n11111111" in measured.text("x", study)


def test_the_goal_can_be_missed(tmp_path, fit):
    assert "is met: 0." in measured.text("x", fit[0])
    study, _ = fitted(read(screens(tmp_path, afdep=1.4)))
    text = measured.text("x", study)
    assert "is not met" in text
    assert "12 of its 12 cells are off by more than 10 %, 12 of them low and 0 high" in text


CONSTANTS = {
    "unsaid": ("  l2_bytes: {lower", "  poll_ns: {lower: 1, upper: 999} # {", "l2_bytes in one of .* in neither"),
    "said twice": ("left_out:", "left_out:\n  l2_bytes: also here #", "l2_bytes in one of .* in both"),
    "part of nothing": ("partly_measured:", "partly_measured:\n  poll_ns: not listed #", "expected constants of fit"),
    "unknown": ("  l2_bytes: {lower", "  l3_bytes: {lower", "received 'l3_bytes'"),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_are_not_accounted_for_are_refused(tmp_path, case):
    old, new, words = CONSTANTS[case]
    path = copied_repository(tmp_path) / "conf" / "fit" / "measured.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(HarnessError, match=words):
        read(lay(tmp_path / "h200", device_plan(), power_device()), SMALL, repository=tmp_path)


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_refused(fit, tmp_path):
    folder = write_measured_fit(tmp_path / "one", fit[0].fit)
    again = read_measured_fit(folder)
    assert measured.text("x", measured.Study(again)) == measured.text("x", fit[0])
    (folder / "cells.parquet").write_bytes((folder / "plans.parquet").read_bytes())
    with pytest.raises(RecordError, match="schema"):
        read_measured_fit(folder)


def test_absences_cannot_be_dropped_from_a_record(tmp_path):
    lay(tmp_path / "h200", device_plan(), power_device(), lambda at, pair: "void" if pair else "ok")
    folder = write_measured_fit(tmp_path / "one", fitted(read(tmp_path / "h200", SMALL))[0].fit)
    (folder / "absences.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        read_measured_fit(folder)


def test_every_kind_of_figure_has_a_column_of_its_own(fit):
    lines = measured.text("x", fit[0]).split("## Cells")[1].splitlines()
    columns = [name.strip() for name in next(line for line in lines if line.startswith("|")).strip("|").split("|")]
    assert columns[3:8] == [
        "measured free-running, us", "measured behind barriers, us", "measured, as compared, us",
        "simulated, us", "refitted, us",
    ]  # fmt: skip
