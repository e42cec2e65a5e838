"""The verb `fit` on measured round trips: record, page, machine file, the way from a calibration, and what is kept."""

import dataclasses
import shutil

import pytest

from afdep import Machine
from harness.compose import compose
from harness.errors import HarnessError
from harness.fit import measured
from harness.fit.measured.replays import Replay, Simulator, cell_us, simulate
from harness.fit.measured.study import FITTED_ARM, HELD_OUT_ARM, REFITTED, SIMULATED, rms_pct
from harness.fit.measured.targets import Place, Series
from harness.plan import Cell
from harness.records.calibrations import write_measurement
from harness.records.fits import read_fit
from harness.records.measured_fits import read_measured_fit
from harness.verbs import calibrate
from harness.verbs import fit as verb
from harness.workspace import REPOSITORY
from tests.harness.device_records import FREE, MACHINE, ROW, device, device_plan, lay, power_device, read, simulator
from tests.harness.fits import AROUND, copied_repository
from tests.harness.probe_output import measured as readings

TRUTH = {"l2_bytes": 26e6, "grid_sync_ns": 1150.0, "latency_spread": 0.4}
ROWS = "fit.rows=[{layout:1A1F,hidden:2048,dtype:bf16,routing:random,transport_sms:24}]"
SMALL = ["fit=measured", "source=records/h200", ROWS, f"fit.machine={MACHINE}", "fit.num_exchanges=4",
         "fit.slope_exchanges=1", "jobs=2"]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A repository in which screens of a made-up device, a simulated machine with other constants, were fitted to."""
    root = copied_repository(tmp_path_factory.mktemp("measured"))
    tokens = (1, 32, 512)
    lay(root / "records" / "h200", device_plan(tokens=tokens), device(60.0, 4, **TRUTH))
    lay(root / "records" / "h200", device_plan(tokens=tokens, device=FREE), device(0.0, 4, **TRUTH))
    lines: list[str] = []
    around = dataclasses.replace(AROUND, repository=root, print_line=lines.append)
    assert verb.run([*SMALL, "keep=small", "write=conf/machine/fitted.yaml"], around) == 0
    return around, lines


def kept(around, name="small"):
    return measured.Study(read_measured_fit(around.repository / "records" / "fit" / name))


def test_a_fit_to_a_known_machine_recovers_the_arm_that_it_did_not_see(small):
    study = kept(small[0])
    held_out, fitted = (study.where(arm=arm) for arm in (HELD_OUT_ARM, FITTED_ARM))
    assert rms_pct(fitted, SIMULATED) > 3 > 1 > rms_pct(fitted, REFITTED)
    assert rms_pct(held_out, REFITTED) < 3
    assert study.fit.run.start_us == pytest.approx(60.0)


def test_the_record_and_page_say_where_they_come_from(small):
    around, lines = small
    text = (around.repository / "reports" / "fit" / "small.md").read_text()
    assert text.startswith(f"# Fit small: {MACHINE} against what the device took\n")
    assert "backend cuda; records/h200 on 2 x NVIDIA H200" in text
    assert "![Error of every cell against tokens](small-errors.png)" in text
    words = "written: records/fit/small, reports/fit/small.md, reports/fit/small-errors.png, conf/machine/fitted.yaml"
    assert lines[-1] == words


def test_the_written_machine_differs_from_the_fitted_in_the_fitted_constants_alone(small):
    folder = small[0].repository / "conf" / "machine"
    old, new = (folder / f"{name}.yaml" for name in (MACHINE, "fitted"))
    changed = [pair for pair in zip(old.read_text().splitlines(), new.read_text().splitlines(), strict=True)
               if pair[0] != pair[1]]  # fmt: skip
    found = {one.name: one.refitted for one in kept(small[0]).free}
    assert {after.partition(":")[0] for _, after in changed} == set(found)
    assert all("fitted on the measured m2n of 1A1F, 2,048, random, 24 SMs (3 round trips)" in two for _, two in changed)
    values = Machine.load("fitted", folder).constants()
    assert {name: values[name] for name in found} == pytest.approx(found, rel=1e-3)


def test_what_is_there_is_never_replaced(small):
    for text in ("keep=small", "write=conf/machine/fitted.yaml"):
        with pytest.raises(HarnessError, match=r"expected .* new"):
            verb.run([*SMALL, text], small[0])


def test_measured_figures_are_not_taken_for_published_ones_nor_the_other_way_round(small):
    with pytest.raises(HarnessError, match="source: expected none beside published figures"):
        verb.run(["source=records/h200"], small[0])
    with pytest.raises(HarnessError, match="source: expected a folder of measured screens, received none"):
        verb.run(["fit=measured"], small[0])


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A repository whose machine is the one that a calibration wrote."""
    root = copied_repository(tmp_path_factory.mktemp("calibrated"))
    write_measurement(root / "readings", readings())
    around = dataclasses.replace(AROUND, repository=root)
    texts = [f"base={MACHINE}", "source=readings", "keep=example", "write=conf/machine/measured.yaml"]
    assert calibrate.run(texts, around) == 0
    return root


def test_a_calibrated_machine_keeps_the_headings_and_order_of_its_base(calibrated):
    base, written = ((calibrated / "conf/machine" / f"{name}.yaml").read_text() for name in (MACHINE, "measured"))
    assert [line.split(":")[0] for line in written.splitlines()] == [line.split(":")[0] for line in base.splitlines()]


def test_a_calibrated_machine_simulates(calibrated):
    machine = Machine.load("measured", calibrated / "conf" / "machine")
    plan = device_plan(tokens=(8,))
    place = Place(Series(ROW, plan.exchange), Cell(8, 8), "m2n")
    own, other = (
        cell_us(simulate(Replay(Simulator(one, simulator().library, ""), place, {}, 2)))
        for one in (machine, simulator().machine)
    )
    assert own > 0
    assert own != pytest.approx(other, rel=1e-3)


def test_what_a_micro_benchmark_gave_is_not_fitted_but_for_what_it_gives_in_part(calibrated):
    lay(calibrated / "records" / "h200", device_plan(), power_device())
    settings = read("records/h200", "fit.machine=measured", ROWS, repository=calibrated)
    assert {one.name for one in settings.free} == {"code_ns", "l2_bytes", "latency_spread"}


def test_a_machine_of_which_all_that_is_listed_was_measured_is_refused(calibrated):
    path = calibrated / "conf" / "machine" / "told.yaml"
    text = (calibrated / "conf" / "machine" / "measured.yaml").read_text()
    path.write_text(text.replace('l2_bytes: {value: 15000000.0, unit: bytes, source: "',
                                 'l2_bytes: {value: 15000000.0, unit: bytes, source: "measured by `harness calibrate` ')
                    )  # fmt: skip
    config = compose("fit", ["fit=measured", "source=records/h200", "fit.machine=told", ROWS], calibrated / "conf")
    config["fit"]["partly_measured"] = {}
    with pytest.raises(HarnessError, match="expected one that no micro-benchmark gives"):
        measured.measured_settings(config, [], calibrated)


def test_a_machine_file_without_a_line_a_constant_is_refused(calibrated, tmp_path):
    root = tmp_path / "repository"
    shutil.copytree(calibrated, root)
    path = root / "conf" / "machine" / f"{MACHINE}.yaml"
    path.write_text(path.read_text().replace("fence_ns: {", "fence_ns:\n  {"))
    with pytest.raises(HarnessError, match=r"expected one line fence_ns: \{...\}, received 0"):
        calibrate.run(
            [f"base={MACHINE}", "source=readings", "write=out.yaml"], dataclasses.replace(AROUND, repository=root)
        )


def test_every_kept_fit_has_the_page_of_its_record(tmp_path):
    folders = sorted((REPOSITORY / "records" / "fit").iterdir())
    assert folders
    for folder in folders:
        of_devices = (folder / "plans.parquet").is_file()
        if of_devices:
            verb.measured_report(measured.Study(read_measured_fit(folder)), folder.name, tmp_path)
        else:
            verb.report(read_fit(folder), folder.name, tmp_path)
        page = REPOSITORY / "reports" / "fit" / f"{folder.name}.md"
        assert page.read_text("utf-8") == (tmp_path / page.name).read_text("utf-8")


def stale(root):
    """Kept fits to measured figures whose machine is neither what they began with nor what they ended with."""
    found = []
    for folder in (root / "records" / "fit").iterdir():
        if (folder / "plans.parquet").is_file():
            fit = read_measured_fit(folder)
            before = {one.name: one.value for one in fit.constants}
            after = before | {one.name: float(f"{one.refitted:.4g}") for one in fit.constants if one.refitted}
            if Machine.load(fit.run.machine, root / "conf" / "machine").constants() not in (before, after):
                found.append(folder.name)
    return found


def test_the_machine_of_a_kept_fit_to_measured_figures_is_the_one_before_or_after_it():
    assert stale(REPOSITORY) == []


def test_the_kept_fit_to_h200s_meets_the_goal_for_the_arm_that_it_did_not_see():
    study = measured.Study(read_measured_fit(REPOSITORY / "records" / "fit" / "h200-nvlink"))
    held_out = [cell for cell in study.fit.cells if cell.arm == HELD_OUT_ARM]
    assert study.arms == ("m2n", "afdep")
    assert len(held_out) > 50
    assert rms_pct(held_out, REFITTED) <= study.settings["goal_pct"] < rms_pct(held_out, SIMULATED)


def test_a_machine_that_was_changed_since_its_fit_is_noticed(small, tmp_path):
    root = tmp_path / "repository"
    shutil.copytree(small[0].repository, root)
    assert stale(root) == []
    path = root / "conf" / "machine" / f"{MACHINE}.yaml"
    shutil.copyfile(root / "conf" / "machine" / "fitted.yaml", path)
    assert stale(root) == []
    path.write_text(path.read_text().replace("poll_ns: {value: 220", "poll_ns: {value: 221"))
    assert stale(root) == ["small"]
