"""From readings to constants: the rules, what is void and why, and the report."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from afdep import Machine
from harness.errors import Exit
from harness.records.envelope import VOID
from harness.studies.calibrate import program, report
from harness.studies.calibrate.program import Record
from harness.studies.calibrate.rules import RULE_OF, Calibrated, Place, judge
from tests.studies.probe_output import SETTINGS, example, lines, measured, results, rows_of

GOLDEN = Path(__file__).parent / "golden" / "calibration.md"
NOT_PROBED = {"host_launch_ns", "kernel_drain_ns", "l2_bytes"}
FLAG = Place("flag", "relaxed")


def judged(readings: list[Record]) -> dict[str, Calibrated]:
    return {one.base.name: one for one in judge(SETTINGS.base, readings, SETTINGS.limits)}


def outcome_of(name: str, readings: list[Record]) -> tuple[str, str | None]:
    one = judged(readings)[name]
    return one.outcome, one.reason


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
    assert found.outcome == "measured"
    assert found.value == pytest.approx(value, rel=1e-3)


def test_every_constant_is_measured_but_those_that_no_probe_tells():
    assert {name for name, one in judged(measured()).items() if one.outcome != "measured"} == NOT_PROBED
    assert set(Machine.load("h200-nvlink").constants()) == set(RULE_OF) | NOT_PROBED


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
    assert found[name].outcome == "void"
    assert found[name].reason
    voids = {one.base.name for one in found.values() if one.outcome == "void"}
    assert all(place in RULE_OF[constant].places for constant in voids)


def test_a_spread_that_is_too_wide_is_void():
    wide = [replace(one, samples=(100.0, 700.0, 1900.0)) if one.probe == "word" else one for one in measured()]
    assert "expected a spread" in str(outcome_of("acquire_ns", wide)[1])


def test_a_small_spread_counts_in_nanoseconds_alone():
    shaky = {"l2_low": (200.0, 300.0), "l2_mean": (250.0, 350.0)}
    readings = [replace(one, samples=shaky.get(one.variant, one.samples)) for one in measured()]
    assert "expected a spread" in str(outcome_of("latency_spread", readings)[1])


def test_a_missing_probe_leaves_the_base_value():
    found = outcome_of("grid_sync_ns", measured(without="grid_sync"))
    assert found == ("kept", "no reading of grid_sync cooperative 24")


def test_a_void_probe_says_why_its_constants_are_void():
    one_gpu = f'{lines("link")[0]}\n{{"probe": "link", "void": "this machine shows one GPU"}}'
    found = judged(measured(link=rows_of("link", one_gpu)))
    assert (found["fence_ns"].outcome, found["fence_ns"].reason) == ("void", "this machine shows one GPU")
    assert found["acquire_ns"].outcome == "measured"


@pytest.mark.parametrize(
    ("last", "fault", "words"),
    [
        ("", "no end within 15 s", "no end within 15 s"),
        ("", "ended with status -11: ", "status -11"),
        ('{"probe": "graph_pe', None, "unreadable"),
        ('{"probe": "x", "samples": [nan]}', None, "unreadable"),
        (lines("launch")[1].replace("32.0", "NaN"), None, "unreadable"),
        (lines("launch")[1].replace('"unit"', '"units"'), None, "unreadable"),
    ],
    ids=["hangs", "crashes", "cut", "no JSON", "not a number", "another field"],
)
def test_a_group_that_fails_is_void_and_the_others_go_on(last, fault, words):
    output = "\n".join(filter(None, (lines("launch")[0], last)))
    found = measured(launch=rows_of("launch", output, fault))
    assert words in str(outcome_of("grid_sync_ns", found)[1])
    assert judged(found)["fence_ns"].outcome == "measured"


def test_a_group_that_prints_nothing_says_so():
    (row,) = rows_of("launch", lines("launch")[0])
    assert (row.probe, row.status, row.reason) == ("launch", VOID, "it printed nothing")


def test_a_later_attempt_takes_the_place_of_an_earlier_one():
    earlier = [replace(one, attempt=1) for one in measured({FLAG: 100.0})]
    both = results([*earlier, *(replace(one, attempt=2) for one in measured())])
    assert {one.base.name: one.outcome for one in report.constants(both.parts[0])}["fence_ns"] == "measured"
    assert len(re.findall(r"\| flag +\| relaxed +\|", report.text(both))) == 1


def test_the_report_is_the_golden_one():
    assert report.text(example()) == GOLDEN.read_text("utf-8")


def test_the_summary_counts_what_became_of_the_constants():
    assert "31 measured, 3 void, 4 kept" in report.summary(example())


def test_a_calibration_in_which_nothing_was_read_has_nothing_to_say():
    broken = [row for group in program.GROUPS for row in rows_of(group, "", "broken")]
    assert report.status(results(broken)) == Exit.NOTHING
    assert "0 measured, 35 void, 3 kept" in report.summary(results(broken))
    assert report.status(example()) == Exit.OK


@pytest.mark.parametrize("name", ["h100-nvlink", "h200-nvlink"])
def test_what_every_value_of_a_machine_file_is_can_be_told(name):
    assert {one.name for one in Machine.load(name).table if report.kind(one.source) == "other"} == set()
    assert report.kind("heard of") == "other"
