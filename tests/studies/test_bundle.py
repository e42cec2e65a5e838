"""A bundle runs its plans on a node with Python, numpy and pyarrow alone, and its library needs no other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from afdep import build
from harness.core import trees
from harness.desk import node, run
from harness.desk.desk import real
from harness.ranks.exchanges import RoundTrip
from harness.records import read, record_files
from tests.harness.conftest import Bench, lay_harness_with_fake_ranks

ROOT = Path(__file__).resolve().parents[2]
BARRED = ("hydra", "omegaconf", "submitit", "pandas", "ml_dtypes", "matplotlib", "scipy", "yaml", "torch")
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
NODE = ("launcher=node", "launcher.to=bundle")


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
        patch.setattr(node, "_built_by", lambda slot: (slot, slot))  # the fake tree has none to build
        run.run("screen", ["screen=grid", "tokens=[1,8]", *NODE, *texts], bench.desk)
    return bench.root / "bundle"


def runs(folder: Path, python: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHON": str(python), **environ}
    return subprocess.run([str(folder / "run")], env=environment, capture_output=True, text=True, timeout=200)


def records(folder: Path):
    return read(record_files(folder / "out")).of(RoundTrip)


def test_a_node_without_gpus_says_so_of_every_cell(bench, tmp_path):
    folder, python = bundled(bench, *RANKS), bare_python(tmp_path / "node")
    shutil.move(folder, tmp_path / "elsewhere")
    done = runs(tmp_path / "elsewhere", python)
    assert (done.returncode, done.stderr) == (3, "")
    assert {one.status for one in records(tmp_path / "elsewhere")} == {"void"}
    assert all(one.reason.startswith("needs ") for one in records(tmp_path / "elsewhere"))


def test_the_barrier_bars(tmp_path):
    python = bare_python(tmp_path / "node")
    done = subprocess.run([str(python), "-c", "import numpy, pyarrow, hydra"], capture_output=True, text=True)
    assert "hydra is not installed on this node" in done.stderr


@pytest.mark.requires("nvcc")
def test_the_built_library_needs_no_other_and_says_its_digest_without_a_gpu():
    library = build.build_cuda()
    node.check_self_contained(library)
    info = build.build_info(library)
    assert (info["target"], info["digest"]) == ("cuda", library.parent.name)


def test_a_simulated_plan_of_this_tree_runs_from_a_bundle_without_ml_dtypes(tmp_path):
    words = ("screen=grid", "layout=1A1F", "tokens=[1]", "hidden=256", "backend.num_exchanges=2", "launcher=node")
    run.run("screen", [*words, f"launcher.out={tmp_path / 'out'}", f"launcher.to={tmp_path / 'bundle'}"], real())
    barred = tuple(name for name in BARRED if name != "yaml")  # the simulator reads a machine file
    home = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
    done = runs(tmp_path / "bundle", bare_python(tmp_path / "node", barred), **home)
    assert done.returncode == 0, done.stderr
    found = {(one.arm, one.status) for one in records(tmp_path / "bundle")}
    assert {status for _, status in found} == {"ok"}
    assert len(found) == 2
