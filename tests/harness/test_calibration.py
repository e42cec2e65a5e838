"""From what the probes print to constants: the rules, what is void and why, the page."""

import dataclasses
from pathlib import Path

import pytest

from afdep import Machine
from harness.calibrate import page
from harness.calibrate.device import Output, driver, runner
from harness.calibrate.judging import RULE_OF, judge
from harness.calibrate.rules import RULES, Place
from harness.calibrate.settings import calibration_settings
from harness.compose import compose
from harness.errors import CalibrationError
from harness.records.calibrations import (
    Calibration,
    CalibrationConstant,
    Measurement,
    read_calibration,
    write_calibration,
)
from harness.records.typed import DamagedTableError
from harness.workspace import REPOSITORY
from tests.harness.probe_output import lay_program, lines, measured

GOLDEN = Path(__file__).parent / "golden" / "calibration.md"
SETTINGS = calibration_settings(compose("calibrate", ["base=h100-nvlink"]), REPOSITORY)
"""Beside a machine that no calibration changes."""
NOT_PROBED = {"host_launch_ns", "kernel_drain_ns", "l2_bytes"}
FLAG = Place("flag", "relaxed")


def judged(measurement: Measurement) -> dict[str, CalibrationConstant]:
    found = judge(SETTINGS.machine, measurement.readings, SETTINGS.limits)
    return {one.constant: one for one in found}


def status_of(name: str, measurement: Measurement) -> tuple[str, str | None]:
    one = judged(measurement)[name]
    return one.status, one.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("graph_gap_ns", 560 - 150 - 130),
        ("cooperative_launch_ns", 200),
        ("pdl_launch_ns", 750),
        ("pdl_release_ns", 430 - 130),
        ("nvlink_latency_ns", 720 - 260 - 4),
        ("nvlink_message_ns", 0.1179),
        ("latency_spread", 0.25),
        ("bulk_latency_ns", 600 - 20 - 250 - 17 - 5.12),
        ("fence_ns", 560),
        ("cta_barrier_ns", 20),
        ("warp_barrier_ns", 1),
        ("sm_load_gb_per_s", 68),
        ("sm_load_l1_gb_per_s", 125),
        ("shared_bytes_per_cta", 232448),
    ],
)
def test_a_constant_follows_from_its_readings(name, value):
    found = judged(measured())[name]
    assert found.status == "measured"
    assert found.value == pytest.approx(value, rel=1e-3)


def test_every_constant_is_measured_but_those_that_no_probe_tells():
    assert {name for name, one in judged(measured()).items() if one.status != "measured"} == NOT_PROBED
    assert set(Machine.load("h200-nvlink").constants()) == {rule.constant for rule in RULES} | NOT_PROBED


def test_a_spread_is_carried_through_a_difference():
    found = judged(measured())["fence_ns"]
    assert found.spread == pytest.approx(0.016 * (1280**2 + 720**2) ** 0.5, rel=1e-6)
    assert found.samples == 5


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("nvlink_gb_per_s", Place("push", "bulk", 24, 4096), 900.0),
        ("hbm_gb_per_s", Place("device", "hbm_copy", 264), 9000.0),
        ("sm_load_gb_per_s", Place("sm_load", "hbm_full_shared", 24, 512), 300.0),
        ("sm_load_l1_gb_per_s", Place("sm_load", "hbm", 24, 512), 300.0),
        ("nvlink_latency_ns", FLAG, 200.0),
        ("graph_gap_ns", Place("cta_turn", "same_sm"), 800.0),
        ("l2_latency_ns", Place("latency", "l2_low"), 0.0),
        ("latency_spread", Place("latency", "l2_low"), 0.0),
        ("nvlink_message_ns", Place("push", "bulk", 132, 512), 600.0),
        ("warp_barrier_ns", Place("cta_barrier", "warps", 32), 4.0),
    ],
)
def test_a_value_that_cannot_be_is_void_and_only_there(name, place, value):
    found = judged(measured({place: value}))
    assert found[name].status == "void"
    assert found[name].reason
    voids = {one.constant for one in found.values() if one.status == "void"}
    assert all(place in RULE_OF[constant].places for constant in voids)


def test_a_spread_that_is_too_wide_is_void():
    readings = measured().readings
    wide = [
        dataclasses.replace(one, samples=(100.0, 700.0, 1900.0)) if one.probe == "word" else one for one in readings
    ]
    assert "expected a spread" in str(status_of("acquire_ns", Measurement(measured().run, wide))[1])


def test_a_small_spread_counts_in_nanoseconds_alone():
    shaky = {"l2_low": (200.0, 300.0), "l2_mean": (250.0, 350.0)}
    readings = [dataclasses.replace(one, samples=shaky.get(one.variant, one.samples)) for one in measured().readings]
    assert "expected a spread" in str(status_of("latency_spread", Measurement(measured().run, readings))[1])


def test_a_missing_probe_leaves_the_base_value():
    status, reason = status_of("grid_sync_ns", measured(without="grid_sync"))
    assert (status, reason) == ("kept", "no reading of grid_sync cooperative 24")


def test_a_void_probe_says_why_its_constants_are_void():
    one_gpu = Output([lines("link")[0], '{"probe": "link", "void": "this machine shows one GPU"}'], 0)
    found = judged(measured(link=one_gpu))
    assert (found["fence_ns"].status, found["fence_ns"].reason) == ("void", "this machine shows one GPU")
    assert found["acquire_ns"].status == "measured"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Output(lines("launch")[:2], None, "no end within 15 s"), "no end within 15 s"),
        (Output(lines("launch")[:2], -11, ""), "status -11"),
        (Output([lines("launch")[0], '{"probe": "graph_pe'], 0), "unreadable"),
        (Output([lines("launch")[0], '{"probe": "x", "samples": [nan]}'], 0), "unreadable"),
    ],
    ids=["hangs", "crashes", "cut", "not-a-number"],
)
def test_a_group_that_fails_is_void_and_the_others_go_on(output, words):
    found = measured(launch=output)
    assert words in str(status_of("grid_sync_ns", found)[1])
    assert judged(found)["fence_ns"].status == "measured"


def test_a_machine_without_a_gpu_is_refused_with_the_reason():
    with pytest.raises(CalibrationError, match="expected a GPU, received no GPU: driver"):
        measured(core=Output([], 3, "no GPU: driver"))


def test_a_machine_whose_every_group_fails_is_refused():
    broken = Output([], 1, "broken")
    with pytest.raises(CalibrationError, match="ended with status 1: broken"):
        measured(core=broken, memory=broken, launch=broken, first_use=broken, link=broken)


def test_a_program_is_run_a_group_at_a_time(tmp_path):
    output = runner(lay_program(tmp_path / "probes"))("launch")
    assert (output.status, list(output.lines)) == (0, lines("launch"))


def test_a_program_that_does_not_end_is_ended_and_what_it_said_stays(tmp_path):
    program = tmp_path / "probes"
    program.write_text("#!/bin/sh\necho first\nexec sleep 60\n")
    program.chmod(0o755)
    output = runner(program, 1)("core")
    assert (output.status, output.error) == (None, "no end within 1 s")
    assert list(output.lines) == ["first"]


def test_the_driver_is_told_where_the_machine_tells_it(tmp_path):
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Kernel Module  580.95.05  Release\nGCC 12\n")
    assert driver(tmp_path / "version") == "580.95.05"
    assert driver(tmp_path / "none") == ""


def calibration() -> Calibration:
    """One with a void constant, a kept one and a void probe."""
    silent = Output(lines("launch", without="grid_sync"), 0)
    void = Output([*lines("link", without="flag"), '{"probe": "flag", "void": "a flag did not come"}'], 0)
    found = measured({Place("device", "hbm_copy", 264): 9000.0}, launch=silent, link=void)
    run = dataclasses.replace(found.run, driver="580.95.05")
    return Calibration(Measurement(run, found.readings), judge(SETTINGS.machine, found.readings, SETTINGS.limits))


def test_the_page_is_the_golden_one():
    assert page.text("example", calibration()) == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("name", ["h100-nvlink", "h200-nvlink"])
def test_what_every_value_of_a_machine_file_is_can_be_told(name):
    assert {one.name for one in Machine.load(name).table if page.kind(one.source) == "other"} == set()
    assert page.kind("heard of") == "other"


def test_a_calibration_is_read_as_it_was_written(tmp_path):
    written = calibration()
    assert read_calibration(write_calibration(tmp_path / "one", written)) == written
    with pytest.raises(FileExistsError):
        write_calibration(tmp_path / "one", written)


def test_readings_of_another_calibration_are_refused(tmp_path):
    folder = write_calibration(tmp_path / "one", calibration())
    (folder / "constants.parquet").write_bytes((folder / "readings.parquet").read_bytes())
    with pytest.raises(DamagedTableError, match="schema"):
        read_calibration(folder)
