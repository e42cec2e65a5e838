"""The verb `calibrate`: its record, page and machine file, where it refuses, and a bundle's own command."""

import dataclasses
import shutil
import subprocess

import pytest

from afdep import Machine
from afdep.errors import BuildError, MachineError
from harness import bundle, cli
from harness.calibrate import program
from harness.calibrate.settings import calibration_settings
from harness.compose import compose
from harness.errors import ConfigError, HarnessError
from harness.records.calibrations import read_calibration, read_measurement, write_measurement
from harness.verbs import calibrate as verb
from harness.workspace import REPOSITORY
from tests.harness.fits import AROUND
from tests.harness.probe_output import lay_program, measured
from tests.harness.test_bundle import bare_python


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A repository in which made-up readings were made a calibration and a machine file of, and what was said."""
    root = tmp_path_factory.mktemp("calibration")
    shutil.copytree(REPOSITORY / "conf", root / "conf")
    write_measurement(root / "readings", measured())
    said: list[str] = []
    around = dataclasses.replace(AROUND, repository=root, print_line=said.append)
    assert verb.run(["source=readings", "keep=example", "write=conf/machine/measured.yaml"], around) == 0
    return around, said


def test_a_calibration_is_recorded_reported_and_told(kept):
    around, said = kept
    found = read_calibration(around.repository / "records" / "calibrations" / "example")
    assert found.measurement == measured()
    assert (around.repository / "reports/calibrations/example.md").read_text().startswith("# Calibration example\n")
    assert "35 constants measured, 0 void, 3 kept" in said[0]
    assert (
        said[-1] == "written: records/calibrations/example, reports/calibrations/example.md, conf/machine/measured.yaml"
    )


def test_the_written_machine_has_the_measured_values_with_their_source(kept):
    folder = kept[0].repository / "conf" / "machine"
    base, written = (Machine.load(name, folder).table for name in ("h200-nvlink", "measured"))
    changed = {new.name: new for old, new in zip(base, written, strict=True) if new != old}
    assert len(changed) == 35
    words = "measured by `harness calibrate` on 2 x NVIDIA H200, record example, flag ordered; flag relaxed: \u00b1"
    assert changed["fence_ns"].source.startswith(words)
    assert changed["fence_ns"].value == 560
    assert changed["shared_bytes_per_sm"].value == 233472


def test_the_base_machine_stays_as_it_is(kept):
    name = "conf/machine/h200-nvlink.yaml"
    assert (kept[0].repository / name).read_bytes() == (REPOSITORY / name).read_bytes()


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["keep=example"], "keep: expected a new name"),
        (["write=conf/machine/h200-nvlink.yaml"], "expected the path of a new .yaml file"),
        (["source=conf"], "source: expected a folder with readings"),
        (["base=h300"], "machine: expected a known name"),
        (["calibrate.most_spread_pct=-1"], "expected a number of at least 0"),
        (["calibrate.bounds.fence_ns.lower=9999"], "expected lower below upper"),
        (["keep=A B"], "small letters"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_setting_of_no_use_is_refused(kept, texts, words):
    with pytest.raises((HarnessError, MachineError), match=words):
        verb.run(texts if "source=conf" in texts else ["source=readings", *texts], kept[0])


@pytest.mark.parametrize("names", [("fence_ns", "nothing_ns"), ("fence_ns", "l2_bytes")])
def test_bounds_of_other_constants_than_the_measured_ones_are_refused(names):
    config = compose("calibrate", [])
    bounds = config["calibrate"]["bounds"]
    bounds[names[1]] = bounds.pop(names[0])
    with pytest.raises(ConfigError, match="constants that probes give, received one more or less: fence_ns"):
        calibration_settings(config, REPOSITORY)


@pytest.mark.requires("nvcc")
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_status_4_in_two_lines(capsys):
    assert cli.main(["calibrate"]) == 4
    problem, next_step = capsys.readouterr().err.splitlines()
    assert problem.startswith("calibrate: expected a GPU, received no GPU: ")
    assert "source=FOLDER" in next_step


def test_a_machine_without_a_compiler_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(program, "carried", lambda tree: tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        program.build()


@pytest.fixture
def carrying(tmp_path):
    """A bundle whose tree carries a program that prints made-up readings."""
    folder = tmp_path / "bundle"
    slot = folder / "slots" / "slot0"
    for part in ("afdep", "harness", "conf"):
        shutil.copytree(REPOSITORY / part, slot / part, ignore=shutil.ignore_patterns("__pycache__"))
    lay_program(program.carried(slot))
    bundle.write_commands(folder, [bundle.CALIBRATE])
    return folder


def calibrated(folder, tmp_path):
    """A bundle's command, run by a Python that lacks what a node lacks, without a compiler."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(bare_python(tmp_path / "node"))}
    command = [str(folder / bundle.CALIBRATE)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)


def test_a_bundle_measures_on_a_bare_node(carrying, tmp_path):
    done = calibrated(carrying, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = (carrying / "out" / "calibrations").iterdir()
    assert read_measurement(folder).readings == measured().readings


def test_a_bundle_whose_probes_have_changed_does_not_run_the_old_ones(carrying, tmp_path):
    (carrying / "slots" / "slot0" / program.SOURCES / "probes.cu").write_text("// another")
    done = calibrated(carrying, tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("compiler: expected nvcc on the PATH, received none.")


def test_a_machine_file_may_go_into_a_folder_that_is_not_there(kept):
    around, _ = kept
    assert verb.run(["source=readings", "keep=again", "write=new/folder/again.yaml"], around) == 0
    assert (around.repository / "new/folder/again.yaml").is_file()
