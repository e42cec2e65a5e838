"""The probes' program and its runs, what is asked of a calibration, and the machine file that comes of one."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from afdep import AfdepError, Machine
from afdep.errors import BuildError
from harness import cli
from harness.config.compose import compose
from harness.core import plan as plans
from harness.core import planning
from harness.desk import run as desk_run
from harness.errors import ConfigError, Exit, HarnessError, ReportError, UsageError
from harness.records import table
from harness.records.envelope import FAILED, OK, VOID
from harness.studies.calibrate import program, report, settings
from harness.studies.calibrate.program import Record, Trial
from harness.study import Batch, Ended, VoidError
from tests.studies.bench import ROOT, Alone, desk_at, settings_of
from tests.studies.bench import rows_of as rows_in
from tests.studies.probe_output import SETTINGS, example, lay_program, lines, measured, rows_of

NOT_PROBED = {"host_launch_ns", "kernel_drain_ns", "l2_bytes"}


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
    found = program.probe(lay_program(tmp_path / "probes"), "launch")
    assert found == program.parsed("launch", "\n".join(lines("launch")).encode())


def test_a_program_that_does_not_end_is_ended_and_what_it_said_stays(tmp_path):
    hanging = shell(tmp_path / "probes", f"echo '{lines('core')[1]}'\nexec sleep 60")
    reading, void = program.probe(hanging, "core", 1)
    assert reading["probe"] == "attribute"
    assert void == {"probe": "core", "void": "no end within 1 s"}


def test_a_program_that_fails_says_what_it_said_last(tmp_path):
    broken = shell(tmp_path / "probes", "echo first >&2\necho broken >&2\nexit 1")
    assert program.probe(broken, "core") == [{"probe": "core", "void": "ended with status 1: broken"}]


def test_a_machine_without_a_gpu_is_void_with_the_reason(tmp_path):
    with pytest.raises(VoidError, match="expected a GPU, received no GPU: driver"):
        program.probe(shell(tmp_path / "probes", "echo no GPU: driver >&2\nexit 3"), "core")


def test_the_driver_is_told_where_the_machine_tells_it(tmp_path):
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Kernel Module  580.95.05  Release\nGCC 12\n")
    assert program.driver(tmp_path / "version") == "580.95.05"
    assert program.driver(tmp_path / "none") is None


def sources(folder: Path) -> Path:
    """A tree with the sources of the probes alone."""
    shutil.copytree(ROOT / program.SOURCES, folder / program.SOURCES)
    return folder


def test_a_machine_without_a_compiler_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        program.build(sources(tmp_path / "tree"))


def test_a_tree_that_carries_the_program_of_just_its_sources_needs_no_compiler(monkeypatch, tmp_path):
    tree = sources(tmp_path / "tree")
    carried = lay_program(tree / "native" / program.probes_hash(tree) / "probes")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.carry(tree) == program.build(tree) == carried
    (tree / program.SOURCES / "probes.cu").write_text("// another")
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        program.build(tree)


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
    assert [trial.group for trial in block.batches[0].trials] == list(program.GROUPS)
    assert (len(block.batches), block.on_loss) == (1, "void")
    assert program.blocks(SETTINGS, measured()) == ()


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
        status = cli.main(["calibrate", f"launcher.out={root / 'out'}"], desk_at(ROOT, lines))
    finally:
        patch.undo()
    return status, root, lines


def with_made_up_probes(*arguments, make=planning.make):
    """A plan as it is, in whose slot lies a program that prints made-up readings."""
    made = make(*arguments)
    slot = made.slots.path(0)
    lay_program(slot / "native" / program.probes_hash(slot) / "probes")
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
    words = ["calibrate", "report", f"launcher.out={calibrated[1] / 'out'}", f"write={path}"]
    assert cli.main(words, desk) == Exit.OK
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
