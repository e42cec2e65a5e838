"""From what the probes print to constants: rules, what is void and why, the report, the machine file, a whole run."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from afdep import AfdepError, Machine
from afdep.errors import BuildError
from harness.config.compose import compose
from harness.core import plan as plans
from harness.core import planning
from harness.desk import report as desk_report
from harness.desk import run as desk_run
from harness.errors import ConfigError, Exit, HarnessError, ReportError, UsageError
from harness.records import table
from harness.records.envelope import FAILED, OK, VOID
from harness.report.results import Part, Results
from harness.studies.calibrate import probes, program, report, settings
from harness.studies.calibrate.judging import Calibrated, judge
from harness.studies.calibrate.program import Record, Trial
from harness.studies.calibrate.rules import RULE_OF, RULES, Place
from harness.study import Batch, Ended, VoidError
from tests.studies.bench import ROOT, Alone, desk_at, settings_of
from tests.studies.bench import rows_of as rows_in
from tests.studies.probe_output import MACHINE, lay_program, lines, measured, rows_of

GOLDEN = Path(__file__).parent / "golden" / "calibration.md"
SETTINGS = settings_of("calibrate", "base=h100-nvlink")
"""Beside a machine that no calibration changes."""
NOT_PROBED = {"host_launch_ns", "kernel_drain_ns", "l2_bytes"}
FLAG = Place("flag", "relaxed")


def judged(readings: list[Record]) -> dict[str, Calibrated]:
    return {one.constant: one for one in judge(SETTINGS.base, readings, SETTINGS.limits)}


def outcome_of(name: str, readings: list[Record]) -> tuple[str, str | None]:
    one = judged(readings)[name]
    return one.outcome, one.reason


def results(readings: list[Record], name: str = "example", **stamped) -> Results:
    """Readings as the records of one plan."""
    rows = tuple({**vars(row), "machine": MACHINE["device"], **stamped, "table": Record.table} for row in readings)
    plan = SimpleNamespace(
        settings=SETTINGS, format=2, trees=(), measuring_digest="m01", machine_digest=None, plan_hash="p01"
    )
    file = SimpleNamespace(
        plan=plan,
        plan_hash="p01",
        created="2026-01-02T00:00:00+00:00",
        command="afdep-bench calibrate",
        rounds=lambda: (),
    )
    return Results("calibrate", name, (Part(file, table.Reading(rows)),))


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
    assert found[name].outcome == "void"
    assert found[name].reason
    voids = {one.constant for one in found.values() if one.outcome == "void"}
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


def test_readings_are_read_as_they_were_written(tmp_path):
    written = measured(link=rows_of("link", lines("link")[0], "no end within 20 s"))
    table.write(tmp_path, "readings", written)
    assert rows_in(Record, tmp_path) == written
    assert {row.status for row in written} == {OK, VOID}


def shell(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_is_run_a_group_at_a_time(tmp_path):
    found = probes.run(lay_program(tmp_path / "probes"), "launch")
    assert found == probes.parsed("launch", "\n".join(lines("launch")).encode())


def test_a_program_that_does_not_end_is_ended_and_what_it_said_stays(tmp_path):
    hanging = shell(tmp_path / "probes", f"echo '{lines('core')[1]}'\nexec sleep 60")
    reading, void = probes.run(hanging, "core", 1)
    assert reading["probe"] == "attribute"
    assert void == {"probe": "core", "void": "no end within 1 s"}


def test_a_program_that_fails_says_what_it_said_last(tmp_path):
    broken = shell(tmp_path / "probes", "echo first >&2\necho broken >&2\nexit 1")
    assert probes.run(broken, "core") == [{"probe": "core", "void": "ended with status 1: broken"}]


def test_a_machine_without_a_gpu_is_void_with_the_reason(tmp_path):
    with pytest.raises(VoidError, match="expected a GPU, received no GPU: driver"):
        probes.run(shell(tmp_path / "probes", "echo no GPU: driver >&2\nexit 3"), "core")


def test_the_driver_is_told_where_the_machine_tells_it(tmp_path):
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Kernel Module  580.95.05  Release\nGCC 12\n")
    assert probes.driver(tmp_path / "version") == "580.95.05"
    assert probes.driver(tmp_path / "none") is None


def sources(folder: Path) -> Path:
    """A tree with the sources of the probes alone."""
    shutil.copytree(ROOT / probes.SOURCES, folder / probes.SOURCES)
    return folder


def test_a_machine_without_a_compiler_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        probes.build(sources(tmp_path / "tree"))


def test_a_tree_that_carries_the_program_of_just_its_sources_needs_no_compiler(monkeypatch, tmp_path):
    tree = sources(tmp_path / "tree")
    carried = lay_program(tree / "native" / probes.probes_hash(tree) / "probes")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.carry(tree) == probes.build(tree) == carried
    (tree / probes.SOURCES / "probes.cu").write_text("// another")
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        probes.build(tree)


def test_probes_that_have_changed_since_the_plan_are_not_run():
    group = Alone(replace(SETTINGS, probes_hash="c0123"))
    with pytest.raises(VoidError, match="probes changed since the plan: c0123 planned"):
        list(program.run(Batch((Trial("core"),)), group))


@pytest.mark.parametrize(("void", "status"), [("no GPU", VOID), (None, FAILED)])
def test_a_group_that_never_ran_has_a_row_that_says_why(void, status):
    ended = Ended({}, endings={0: "BuildError: no nvcc"}, void=void)
    (row,) = program.judge(SimpleNamespace(settings=SETTINGS), Batch(()), Trial("core"), ended)
    assert (row.probe, row.status, row.reason) == ("core", status, void or "BuildError: no nvcc")


def test_all_groups_are_of_one_process_and_no_second_round_follows():
    (block,) = program.blocks(SETTINGS, ())
    assert [trial.group for trial in block.batches[0].trials] == list(probes.GROUPS)
    assert (len(block.batches), block.on_loss) == (1, "void")
    assert program.blocks(SETTINGS, measured()) == ()


def test_a_later_attempt_takes_the_place_of_an_earlier_one():
    earlier = [replace(one, attempt=1) for one in measured({FLAG: 100.0})]
    both = results([*earlier, *(replace(one, attempt=2) for one in measured())])
    assert {one.constant: one.outcome for one in report.constants(both.parts[0])}["fence_ns"] == "measured"
    assert len(re.findall(r"\| flag +\| relaxed +\|", report.text(both))) == 1


def example() -> Results:
    """A calibration with a void constant, a kept one and a void probe."""
    silent = rows_of("launch", "\n".join(lines("launch", without="grid_sync")))
    flag = '{"probe": "flag", "void": "a flag did not come"}'
    void = rows_of("link", "\n".join([*lines("link", without="flag"), flag]))
    readings = measured({Place("device", "hbm_copy", 264): 9000.0}, launch=silent, link=void)
    return results(readings, driver="580.95.05")


def test_the_report_is_the_golden_one():
    assert report.text(example()) == GOLDEN.read_text("utf-8")


def test_the_summary_counts_what_became_of_the_constants():
    assert "31 measured, 3 void, 4 kept" in report.summary(example())


def test_a_calibration_in_which_nothing_was_read_has_nothing_to_say():
    broken = [row for group in probes.GROUPS for row in rows_of(group, "", "broken")]
    assert report.status(results(broken)) == Exit.NOTHING
    assert "0 measured, 35 void, 3 kept" in report.summary(results(broken))
    assert report.status(example()) == Exit.OK


@pytest.mark.parametrize("name", ["h100-nvlink", "h200-nvlink"])
def test_what_every_value_of_a_machine_file_is_can_be_told(name):
    assert {one.name for one in Machine.load(name).table if report.kind(one.source) == "other"} == set()
    assert report.kind("heard of") == "other"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base=h300", "machine: expected a known name"),
        ("calibrate.most_spread_pct=-1", "calibrate.most_spread_pct: expected 0 or more"),
        ("calibrate.bounds.fence_ns.lower=9999", "calibrate.bounds.fence_ns: expected lower below upper"),
        ("calibrate.bounds.fence_ns.lower=low", "calibrate.bounds.fence_ns.lower: expected a number"),
        ("source=here", "source: expected a key"),
    ],
    ids=lambda value: value if "=" in value else None,
)
def test_a_setting_of_no_use_is_refused(text, words):
    with pytest.raises((HarnessError, AfdepError), match=words):
        settings_of("calibrate", text)


@pytest.mark.parametrize("names", [("fence_ns", "nothing_ns"), ("fence_ns", "l2_bytes")])
def test_bounds_of_other_constants_than_the_measured_ones_are_refused(names):
    config = compose("study/calibrate", [], ROOT / "conf")
    bounds = config["calibrate"]["bounds"]
    bounds[names[1]] = bounds.pop(names[0])
    with pytest.raises(ConfigError, match="constants that probes give, received one more or less: fence_ns"):
        settings.wanted(config, desk_at(ROOT, []))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A run in whose slot a program prints made-up readings: exit status, folder of its out folder, lines."""
    root = tmp_path_factory.mktemp("calibrated")
    lines: list[str] = []
    patch = pytest.MonkeyPatch()
    patch.setattr(desk_run.planning, "make", with_made_up_probes)
    try:
        status = desk_run.run("calibrate", [f"launcher.out={root / 'out'}"], desk_at(ROOT, lines))
    finally:
        patch.undo()
    return status, root, lines


def with_made_up_probes(*arguments, make=planning.make):
    """A plan as it is, in whose slot lies a program that prints made-up readings."""
    made = make(*arguments)
    slot = made.slots.path(0)
    lay_program(slot / "native" / probes.probes_hash(slot) / "probes")
    return made


def test_a_calibration_runs_records_and_sums_up(calibrated):
    status, root, said = calibrated
    rows = rows_in(Record, root / "out")
    assert status == Exit.OK
    assert [(row.probe, row.samples) for row in rows] == [(row.probe, row.samples) for row in measured()]
    assert {(row.machine, row.gpus, row.backend, row.status) for row in rows} == {("NVIDIA H200", 2, "cuda", OK)}
    assert "35 measured, 0 void, 3 kept" in "\n".join(said)


def written(calibrated, path: Path) -> list[str]:
    said: list[str] = []
    desk = desk_at(ROOT, said)
    assert desk_report.run("calibrate", [f"launcher.out={calibrated[1] / 'out'}", f"write={path}"], desk) == Exit.OK
    return said


def test_the_written_machine_has_the_measured_values_with_their_source(calibrated, tmp_path):
    said = written(calibrated, tmp_path / "new" / "measured.yaml")
    base, new = (Machine.load(*one).table for one in (("h200-nvlink",), ("measured", tmp_path / "new")))
    changed = {one.name: one for old, one in zip(base, new, strict=True) if one != old}
    assert len(changed) == 35
    words = "measured by `harness calibrate` on 2 x NVIDIA H200, record calibrate, flag ordered; flag relaxed: \u00b1"
    assert changed["fence_ns"].source.startswith(words)
    assert (changed["fence_ns"].value, changed["shared_bytes_per_sm"].value) == (560, 233472)
    assert said[-1].startswith("written: ")
    assert said[-1].endswith("new/measured.yaml")


def test_every_other_line_of_the_written_machine_is_the_base(calibrated, tmp_path):
    written(calibrated, tmp_path / "measured.yaml")
    base = (ROOT / "conf/machine/h200-nvlink.yaml").read_text("utf-8").splitlines()
    new = (tmp_path / "measured.yaml").read_text("utf-8").splitlines()
    different = [old.partition(":")[0] for old, line in zip(base, new, strict=True) if old != line]
    assert len(different) == 35
    assert NOT_PROBED.isdisjoint(different)


@pytest.mark.parametrize("name", ["taken.yaml", "measured.txt"])
def test_a_machine_file_that_is_there_or_named_otherwise_is_refused(tmp_path, name):
    (tmp_path / "taken.yaml").write_text("as it was")
    with pytest.raises(UsageError, match=r"expected the path of a new \.yaml file"):
        report.products(example(), tmp_path / name, ROOT / "conf")
    assert (tmp_path / "taken.yaml").read_text() == "as it was"


def test_a_base_that_has_changed_since_the_plan_is_refused(tmp_path):
    shutil.copytree(ROOT / "conf" / "machine", tmp_path / "machine")
    path = tmp_path / "machine" / "h100-nvlink.yaml"
    path.write_text(path.read_text("utf-8").replace("value: 2500", "value: 2501"), "utf-8")
    with pytest.raises(ReportError, match="received another h100-nvlink"):
        report.products(example(), tmp_path / "new.yaml", tmp_path)


def test_a_plan_of_a_calibration_is_read_as_it_was_written(tmp_path, calibrated):
    (path,) = (one for one in (calibrated[1] / "out" / "plans").glob("p*.json"))
    file = plans.load(path)
    assert file.plan.settings == settings_of("calibrate")
    assert file.plan.settings.base == Machine.load("h200-nvlink")
