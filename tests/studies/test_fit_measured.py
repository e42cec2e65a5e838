"""Fits to measured round trips: one arm decides, starts are told apart, what is no use is refused or listed."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from afdep import Machine, native_digest
from harness.errors import HarnessError
from harness.report import machine_file
from harness.studies.calibrate.report import MEASURED_HERE
from harness.studies.fit import report
from harness.studies.fit.fit import BEHIND, FREE_RUNNING, MEASURED, START_OFF, rms
from tests.studies import fits
from tests.studies.bench import ROOT
from tests.studies.fits import FREE, MACHINE, WIDE, device, lay, measured, screened

TOKENS = (1, 8, 128, 512)
TRUTH = {"l2_bytes": 22e6, "grid_sync_ns": 1100.0, "nvlink_gb_per_s": 325.0}
SMALL = "fit.rows=[{layout:1A1F,hidden:2048,dtype:bf16,routing:random,transport_sms:24}]"


def screens(folder, start_us=0.0, free=True, **more):
    """Two rows behind host barriers, and one of them free-running as well."""
    for row in (fits.ROW, WIDE):
        lay(folder, screened(row, tokens=TOKENS), device(start_us, **TRUTH, **more))
    if free:
        lay(folder, screened(tokens=TOKENS, device=FREE), device(**TRUTH, **more))
    return folder


def solved(settings):
    return fits.solved(fits.studied(settings, {*settings.free, "host_launch_ns"}), fits.device_powers)


def text(fit):
    return "\n\n".join([report._lead(fit), *report._of_devices(fit)])


def off(fit, kind, **wanted):
    return rms(fit.off_pct(kind, fit.settings.where(**wanted)))


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    return solved(measured(screens(tmp_path_factory.mktemp("fit") / "h200", start_us=60.0)))


def test_a_fit_to_one_arm_finds_the_figures_of_the_other(fit):
    assert len(fit.settings.where(arm=1)) == 2 * len(TOKENS)
    assert off(fit, "simulated", arm=1) > 3 > 0.5 > off(fit, "refitted", arm=1)


def test_only_cells_of_the_fitted_arm_in_the_named_rows_are_fitted_on(tmp_path):
    read = measured(screens(tmp_path), SMALL)
    cells = [read.place(at) for at in read.where(fitted=True)]
    assert {(cell.arm, series.row.hidden) for cell, series in cells} == {(0, 2048)}
    assert len(cells) == len(TOKENS)


@pytest.mark.parametrize(("arm", "enters"), [("afdep", False), ("m2n", True)])
def test_the_fitted_arm_alone_decides(fit, tmp_path, arm, enters):
    usual = device(60.0, **TRUTH)
    for row in (fits.ROW, WIDE):
        lay(tmp_path, screened(row, tokens=TOKENS), lambda at: usual(at) * (1.2 if at.arm == arm else 1.0))
    free = screened(tokens=TOKENS, device=FREE)
    found = solved(measured(lay(tmp_path, free, lambda at: usual(at) * (1.2 if at.arm == arm else 1.0) - 3))).found
    assert (found != pytest.approx(fit.found, rel=1e-9)) is enters


def test_a_start_is_taken_off_by_name_and_not_fitted_away(fit, tmp_path):
    assert fit.settings.source.start_us == pytest.approx(60.0)
    without = solved(measured(screens(tmp_path)))
    assert without.settings.source.start_us == pytest.approx(0.0, abs=1e-9)
    assert fit.found == pytest.approx(without.found, rel=1e-6)
    timed = {(cell.timing, fit.settings.series[cell.row].row.hidden) for cell in fit.settings.cells}
    assert timed == {(FREE_RUNNING, 2048), (START_OFF, 4096)}
    assert "60 us, the median over the cells of m2n that were timed both ways" in text(fit)


def test_an_unknown_start_stays_in_and_the_page_says_so(tmp_path):
    fit = solved(measured(screens(tmp_path, start_us=60.0, free=False)))
    assert fit.settings.source.start_us is None
    assert {cell.timing for cell in fit.settings.cells} == {BEHIND}
    assert "16 cells were timed behind host barriers alone" in text(fit)


def test_the_held_out_arms_own_starts_are_not_used(tmp_path):
    both = device(60.0, **TRUTH)
    lay(tmp_path, screened(tokens=TOKENS), lambda at: both(at) + (9.0 if at.arm == "afdep" else 0.0))
    lay(tmp_path, screened(tokens=TOKENS, device=FREE), device(**TRUTH))
    assert measured(tmp_path, SMALL).source.start_us == pytest.approx(60.0)


def test_a_cell_that_is_void_failed_or_missing_is_left_out_and_listed(tmp_path):
    ends = {1: "void", 8: "failed", 128: "missing"}
    lay(tmp_path, screened(tokens=TOKENS), device(), lambda at, pair: ends.get(at.tokens, "ok"))
    fit = solved(measured(tmp_path, SMALL))
    assert sorted({cell.tokens for cell in fit.settings.cells}) == [512]
    listed = [re.sub(r", (m2n|afdep), pair . |plan p[0-9a-f]*", "", one) for one in fit.settings.source.absences]
    assert {one.split(": ")[0] + one.split(": ")[2].partition(" (")[0] for one in listed} == {
        "voidmade void", "failedmade failed", "missingnot run",
    }  # fmt: skip
    assert "- void: 1A1F, 2,048, random, afdep, pair 1, T = 1: made void (plan p" in text(fit)


def test_missing_cells_of_one_process_stand_together(tmp_path):
    gone = (1, 8, 512)
    lay(tmp_path, screened(tokens=TOKENS), device(), lambda at, _: "missing" if at.tokens in gone else "ok")
    page = text(solved(measured(tmp_path, SMALL)))
    assert page.count("- missing: ") == 2 * 2
    assert "m2n, pair 2, T = 1, 8, 512: not run (plan p" in page


def test_a_cell_counts_with_the_pairs_that_it_has(tmp_path):
    lay(tmp_path, screened(), device(), lambda at, pair: "void" if pair else "ok")
    read = measured(tmp_path, SMALL)
    assert {len(cell.behind_us) for cell in read.cells} == {1}
    assert len(read.source.absences) == 2


def test_damaged_records_and_plans_are_listed(tmp_path):
    lay(tmp_path, screened(), device())
    first = min(tmp_path.rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-20])
    (tmp_path / "plans" / "p0123456789abcdef.json").write_text("")
    named = [one.split(": ")[:2] for one in measured(tmp_path, SMALL).source.absences if one.startswith("quarantined")]
    assert named == [["quarantined", "p0123456789abcdef.json"], ["quarantined", first.name]]


def test_eager_and_shared_gpus_and_traces_are_another_matter_and_sms_another_row(tmp_path):
    lay(tmp_path, screened(), device())
    lay(tmp_path, screened(mode="eager"), lambda at: 999.0)
    lay(tmp_path, screened(replace(fits.ROW, routing="trace@x0123456789abcdef")), lambda at: 999.0)
    lay(tmp_path, screened(transport_sms=64), device())
    read = measured(tmp_path, SMALL)
    assert [read.label(row) for row in range(2)] == ["1A1F, 2,048, random, 24 SMs", "1A1F, 2,048, random, 64 SMs"]
    assert len(read.series) == 2
    assert max(max(cell.behind_us) for cell in read.cells) < 100


def test_a_held_out_arm_that_was_not_measured_is_said(tmp_path):
    lay(tmp_path, screened(arms=("m2n", "afdep@bd4db4da")), device())
    page = text(solved(measured(tmp_path, SMALL)))
    assert "No cell of afdep was measured" in page
    assert "nan" not in page


def mixed(folder):
    lay(folder, screened(digest="n1111111111111111"), device())
    return lay(folder, screened(WIDE, digest="n2222222222222222"), device())


REFUSED = {
    "no fitted arm": (
        lambda folder: lay(folder, screened(), device(), lambda at, _: "ok" if at.arm == "afdep" else "void"),
        (), "expected measured cells of m2n, in graphs with a GPU a rank, received 2 of afdep alone",
    ),
    "nothing ok": (lambda folder: lay(folder, screened(), device(), lambda at, _: "failed"), (), "received none"),
    "no plan": (lambda folder: (folder / "plans").mkdir(parents=True) or folder, (), "at least one, received none"),
    "nothing there": (lambda folder: folder, (), "expected records, received nothing of that name"),
    "two digests": (
        mixed, (), r"one native digest, received (?=.*n1{16} \(as plan p)(?=.*n2{16} \(as plan p)",
    ),
    "no such digest": (mixed, ("digest=n33333333",), "expected measured cells of m2n of n33333333"),
    "no digest": (mixed, ("digest=12345678",), "digest"),
    "row not measured": (screens, (SMALL.replace("bf16", "fp8"),), "rows with figures of the first"),
    "replays of two lengths": (
        lambda folder: lay(lay(folder, screened(), device()), screened(replay=40), device()),
        (SMALL,), r"one number of exchanges, received \[20, 40\]",
    ),
    "a start beyond the time": (
        lambda folder: lay(lay(folder, screened(), device(700.0)), screened(WIDE), lambda at: 9.0)
        and lay(folder, screened(device=FREE), device()),
        (SMALL,), "received 9.0 us an exchange and a start of 700 us a replay",
    ),
    "a reach of one": (screens, ("fit.reach=1",), "expected 1.001 or more"),
    "an axis": (screens, ("hidden=2048",), "hidden: expected no such key beside fit=measured"),
    "an exchange": (screens, ("exchange.seed=1",), "exchange: expected no such key beside fit=measured"),
    "bounds": (screens, ("fit.constants.l2_bytes.upper=9000000",), "expected bounds around 1.5e\\+07"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fitted_to_is_refused_in_two_lines(tmp_path, case):
    make, texts, words = REFUSED[case]
    with pytest.raises(HarnessError, match=words) as caught:
        measured(make(tmp_path / "h200"), *texts)
    assert len(str(caught.value).splitlines()) == 2


def test_one_of_two_digests_can_be_chosen(tmp_path):
    source = measured(mixed(tmp_path), SMALL, "digest=n1111111111111111").source
    assert (source.digest, sum(line.startswith("plan p") for line in source.lines)) == ("n1111111111111111", 1)


def test_other_sources_than_the_measured_ones_are_told(tmp_path, fit):
    other = solved(measured(mixed(tmp_path), SMALL, "digest=n1111111111111111"))
    both = f"measured was n1111111111111111, the tree that simulates has {native_digest('cuda')};"
    assert f"**The sources are not the same**: {both}" in text(other)
    assert "Both ran the same native sources." in text(fit)


def test_the_goal_can_be_missed(tmp_path, fit):
    assert "is met: 0." in text(fit)
    page = text(solved(measured(screens(tmp_path, afdep=1.4))))
    assert "is not met" in page
    assert "8 of its 8 cells are off by more than 10 %, 8 of them low and 0 high" in page


CONSTANTS = {
    "unsaid": ("  l2_bytes: {lower", "  poll_ns: {lower: 1, upper: 999} # {", "l2_bytes in one of .* in neither"),
    "said twice": ("left_out:", "left_out:\n  l2_bytes: also here #", "l2_bytes in one of .* in both"),
    "part of nothing": (
        "partly_measured:",
        "partly_measured:\n  poll_ns: not listed #",
        "partly_measured in constants",
    ),
    "unknown": ("  l2_bytes: {lower", "  l3_bytes: {lower", "received 'l3_bytes'"),
}


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    lay(tmp_path / "records" / "screen" / "h200", screened(), device())
    return tmp_path


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_are_not_accounted_for_are_refused(copied, case):
    old, new, words = CONSTANTS[case]
    path = copied / "conf" / "fit" / "measured.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(HarnessError, match=words):
        measured("records/screen/h200", SMALL, root=copied)


def calibrated(folder, *names):
    """A machine file with constants that a calibration gave."""
    machines = folder / "conf" / "machine"
    changed = [
        replace(one, source=f"{MEASURED_HERE} on two") for one in Machine.load(MACHINE).table if one.name in names
    ]
    machine_file.write(machines / f"{MACHINE}.yaml", machines / "measured.yaml", changed)
    return "fit.machine=measured"


def test_what_a_micro_benchmark_gave_is_not_fitted_but_for_what_it_gives_in_part(copied):
    listed = measured("records/screen/h200", SMALL, root=copied).free
    assert {"l2_bytes", "latency_spread", "grid_sync_ns"} < set(listed)
    assert "code_ns" not in listed  # it is 0, and has no logarithm
    text = calibrated(copied, *(name for name in listed if name != "l2_bytes"))
    read = measured("records/screen/h200", text, SMALL, root=copied)
    assert set(read.free) == {"latency_spread", "l2_bytes"}
    kinds = {one.name: (one.kind, one.reason) for one in read.constants}
    assert kinds["grid_sync_ns"] == (MEASURED, None)
    assert kinds["latency_spread"][1].startswith("the probe sees distance alone")


def test_a_machine_of_which_all_that_is_listed_was_measured_is_refused(copied):
    text = calibrated(copied, *Machine.load(MACHINE).constants())
    path = copied / "conf" / "fit" / "measured.yaml"
    path.write_text(re.sub(r"(?ms)^partly_measured:.*?(?=^left_out)", "", path.read_text()))
    with pytest.raises(HarnessError, match="expected one that no micro-benchmark gives"):
        measured("records/screen/h200", text, SMALL, root=copied)


def test_every_kind_of_figure_has_a_column_of_its_own(fit):
    lines = text(fit).split("## Cells")[1].splitlines()
    columns = [name.strip() for name in next(line for line in lines if line.startswith("|")).strip("|").split("|")]
    assert columns[3:8] == [
        "measured free-running, us", "measured behind barriers, us", "measured, as compared, us",
        "simulated, us", "refitted, us",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A fit to a simulated machine with two other constants, and a start of each replay."""
    folder, truth = tmp_path_factory.mktemp("known"), {"grid_sync_ns": 1150.0, "latency_spread": 0.4}
    lay(folder, screened(tokens=(1, 32)), fits.simulated_device(60.0, 2, **truth))
    lay(folder, screened(tokens=(1, 32), device=FREE), fits.simulated_device(0.0, 2, **truth))
    read = measured(folder, SMALL, "fit.num_exchanges=2", "fit.slope_exchanges=1", "fit.evaluations=3")
    return fits.solved(fits.with_free(fits.studied(read, truth), truth))


def test_a_fit_to_a_known_machine_recovers_the_arm_that_it_did_not_see(known):
    assert off(known, "simulated", arm=0) > 3 > 1 > off(known, "refitted", arm=0)
    assert off(known, "refitted", arm=1) < 3
    assert known.settings.source.start_us == pytest.approx(60.0)


def test_a_fit_takes_the_steps_that_it_always_took(known):
    golden = fits.golden("measured")
    assert fits.steps_of(known) == pytest.approx(np.array(golden["steps"]), rel=1e-12)
    kinds = {"compared": "measured", "simulated": "simulated", "refitted": "refitted"}
    assert {name: known.us[kind].tolist() for name, kind in kinds.items()} == {name: golden[name] for name in kinds}
