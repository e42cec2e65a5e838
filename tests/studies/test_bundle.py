"""A bundle runs its plans on a node with Python, numpy and pyarrow alone, and its library needs no other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from afdep import build
from harness import bundle, records, trees
from harness.errors import BundleError
from harness.surroundings import real
from harness.verbs import bundle as verb
from harness.verbs import plan as plan_verb
from tests.harness.conftest import Bench, lay_harness_with_fake_ranks

ROOT = Path(__file__).resolve().parents[2]
BARRED = ("hydra", "omegaconf", "submitit", "pandas", "ml_dtypes", "matplotlib", "yaml", "torch")
BARRIER = """
import sys
BARRED = {barred!r}
class Barrier:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BARRED:
            raise ImportError(f"{{name}} is not installed on this node")
sys.meta_path.insert(0, Barrier())
"""
RANKS = ("backend=upstream", "backend.pairs=2", "backend.device.wait_timeout_s=1", "launcher.timeout_s=60")


def bare_python(folder: Path, barred: tuple[str, ...] = BARRED) -> Path:
    """A Python that refuses to import what a node lacks, in every process that it starts."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder / "venv")], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    installed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "barrier.py").write_text(BARRIER.format(barred=barred))
    (site / "node.pth").write_text(f"{installed}\nimport barrier\n")
    return folder / "venv" / "bin" / "python"


def bundled(bench: Bench, *texts: str) -> Path:
    """The bundle of one planned screen of a bench."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "_lay_harness_over", lay_harness_with_fake_ranks)
        patch.setattr(bundle, "_carry", lambda slot: None)  # the fake tree has none to build
        plan_verb.run(["screen=grid", "tokens=[1,8]", *texts], bench.around)
        verb.run(["to=bundle"], bench.around)
    return bench.root / "bundle"


def run(folder: Path, python: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHON": str(python), **environ}
    return subprocess.run([str(folder / "run")], env=environment, capture_output=True, text=True, timeout=200)


def test_a_bundle_of_ranks_runs_on_a_bare_node_and_a_second_run_measures_nothing(bench, tmp_path):
    folder, python = bundled(bench, *RANKS), bare_python(tmp_path / "node")
    shutil.move(folder, tmp_path / "elsewhere")
    done = run(tmp_path / "elsewhere", python)
    assert done.returncode == 0, done.stderr
    found = records.read((tmp_path / "elsewhere" / "out").rglob("*.parquet")).records
    assert len(found) == 2 * 2 * 2 * 2
    assert {one.status for one in found} == {"ok"}
    assert "nothing to measure" in run(tmp_path / "elsewhere", python).stdout


def test_the_barrier_bars(tmp_path):
    python = bare_python(tmp_path / "node")
    done = subprocess.run([str(python), "-c", "import numpy, pyarrow, hydra"], capture_output=True, text=True)
    assert "hydra is not installed on this node" in done.stderr


def test_a_failed_process_on_the_node_gives_the_status_of_a_failure(bench, tmp_path):
    bench.behave({"arm": "m2n", "tokens": 8, "rank": 0, "do": "raise", "word": "wrong bit"})
    done = run(bundled(bench, *RANKS), bare_python(tmp_path / "node"))
    assert done.returncode == 4
    assert "rank 0: RuntimeError: wrong bit" in done.stdout


@pytest.mark.parametrize(
    ("arms", "status"), [(("m2n", "afdep@bd4db4da"), 3), (("m2n",), 0)], ids=["both arms", "one arm"]
)
def test_a_run_of_which_nothing_counts_gives_the_status_of_nothing(bench, tmp_path, arms, status):
    facts = {"device": "NVIDIA A100"}
    bench.behave(*({"arm": arm, "rank": 1, "do": "report", "facts": facts} for arm in arms))
    done = run(bundled(bench, *RANKS), bare_python(tmp_path / "node"))
    assert done.returncode == status, done.stdout
    assert "machine: the plan expects h200-nvlink" in done.stdout


def test_a_plan_of_sources_that_changed_since_is_refused(bench):
    plan_verb.run(["screen=grid", "tokens=[1]"], bench.around)
    (bench.root / "vendor" / "elastic" / "word.h").write_text("// two\n")
    with pytest.raises(BundleError, match="expected sources t"):
        verb.run(["to=bundle"], bench.around)
    assert not (bench.root / "bundle").exists()


def test_a_folder_that_is_no_bundle_is_not_replaced(bench):
    plan_verb.run(["screen=grid", "tokens=[1]"], bench.around)
    with pytest.raises(BundleError, match="expected no folder or a bundle"):
        verb.run(["to=conf"], bench.around)


def test_a_library_that_needs_another_one_is_refused(tmp_path):
    (tmp_path / "a.cpp").write_text("#include <cstdio>\nvoid f() { std::puts(__DATE__); }\n")
    compile_ = ["g++", "-shared", "-fPIC", str(tmp_path / "a.cpp"), "-o"]
    subprocess.run([*compile_, str(tmp_path / "libneeded.so")], check=True)
    linked = [str(tmp_path / "liba.so"), f"-L{tmp_path}", "-Wl,--no-as-needed", "-lneeded"]
    subprocess.run([*compile_, *linked], check=True)
    bundle.check_self_contained(tmp_path / "libneeded.so")
    with pytest.raises(BundleError, match=r"libneeded\.so"):
        bundle.check_self_contained(tmp_path / "liba.so")


@pytest.mark.requires("nvcc")
def test_the_built_library_needs_no_other_and_says_its_digest_without_a_gpu():
    library = build.build_cuda()
    bundle.check_self_contained(library)
    info = build.build_info(library)
    assert (info["target"], info["digest"]) == ("cuda", library.parent.name)


@pytest.mark.requires("nvcc")
def test_a_carried_library_is_found_by_its_digest_without_a_compiler(tmp_path, monkeypatch):
    slots = trees.export(ROOT, ["working"], tmp_path)
    bundle.carry_library(slots.path(0))
    monkeypatch.setenv("PATH", "")
    assert build.build_cuda(slots.path(0)) == build.carried(slots.path(0))
    header = slots.path(0) / "vendor" / "elastic" / "prim.cuh"
    header.write_text(header.read_text() + "// changed\n")
    with pytest.raises(build.BuildError, match="expected nvcc"):
        build.build_cuda(slots.path(0), tmp_path / "cache")


def test_a_simulated_plan_of_this_tree_runs_from_a_bundle_without_ml_dtypes(tmp_path):
    around, out = real(), f"launcher.out={tmp_path / 'out'}"
    plan_verb.run(["screen=grid", "tokens=[1,8]", "backend.num_exchanges=2", out], around)
    verb.run([out, f"to={tmp_path / 'bundle'}"], around)
    barred = tuple(name for name in BARRED if name != "yaml")  # the simulator reads a machine file
    home = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
    done = run(tmp_path / "bundle", bare_python(tmp_path / "node", barred), **home)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "bundle" / "launcher.json").read_text())["out"] == "out"
    found = records.read((tmp_path / "bundle" / "out").rglob("*.parquet")).records
    assert {(one.arm, one.tokens, one.status) for one in found} == {
        (arm, tokens, "ok") for arm in ("m2n", "afdep@bd4db4da") for tokens in (1, 8)
    }
