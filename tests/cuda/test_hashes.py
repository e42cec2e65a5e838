"""vendor/HASHES names every file of the kernel tree as it stands."""

import shutil
from pathlib import Path

import pytest

from tests.cuda.kernels import ROOT
from vendor import hashes


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of vendor/ with pins of its own, one of them by another compiler, on a machine without nvcc."""
    monkeypatch.setattr(hashes, "nvcc_version", lambda: None)
    vendor = tmp_path / "vendor"
    shutil.copytree(ROOT / "vendor", vendor, ignore=shutil.ignore_patterns("__pycache__"))
    pins = hashes.Pins(hashes.file_hashes(vendor), {("98.0.0", "kernel"): "f" * 64})
    (vendor / "HASHES").write_text("\n".join(pins.lines()))
    return vendor


def test_every_file_matches_its_pin() -> None:
    pinned = hashes.read_pins(ROOT / "vendor").files
    assert hashes.differences(pinned, hashes.file_hashes(ROOT / "vendor")) == [], "if it is meant, run `make hashes`"


def test_the_unchanged_tree_passes(tree: Path) -> None:
    assert hashes.main(["--check", "--vendor", str(tree)]) == 0


def test_a_changed_byte_is_named(tree: Path) -> None:
    file = tree / "elastic" / "format.hpp"
    file.write_bytes(file.read_bytes().replace(b"128", b"129", 1))
    assert hashes.check(tree) == ["elastic/format.hpp"]


def test_a_file_without_a_pin_is_named(tree: Path) -> None:
    (tree / "elastic" / "more.cuh").write_text("")
    assert hashes.check(tree) == ["elastic/more.cuh"]


def test_a_missing_file_is_named(tree: Path) -> None:
    (tree / "elastic" / "notify.cuh").unlink()
    assert hashes.check(tree) == ["elastic/notify.cuh"]


def test_a_difference_fails_in_two_lines(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "PROVENANCE.md").write_text("")
    assert hashes.main(["--check", "--vendor", str(tree)]) == 1
    what, then = capsys.readouterr().err.splitlines()
    assert "these differ: PROVENANCE.md" in what
    assert "make hashes" in then


def test_pins_are_not_written_without_nvcc(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "HASHES").read_text()
    assert hashes.main(["--write", "--vendor", str(tree)]) == 1
    assert "nvcc: expected on PATH" in capsys.readouterr().err
    assert (tree / "HASHES").read_text() == before


@pytest.fixture
def fake_nvcc(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "nvcc_version", lambda: "99.0.1")
    monkeypatch.setattr(hashes, "compiled_code", lambda source: {"kernel": "0" * 64})


@pytest.mark.usefixtures("fake_nvcc")
def test_another_compilers_pins_stay_while_no_file_changes(tree: Path) -> None:
    assert hashes.refreshed(tree, "99.0.1").code.keys() == {("98.0.0", "kernel"), ("99.0.1", "kernel")}


@pytest.mark.usefixtures("fake_nvcc")
def test_another_compilers_pins_go_with_a_changed_file(tree: Path) -> None:
    (tree / "PROVENANCE.md").write_text("")
    assert hashes.refreshed(tree, "99.0.1").code.keys() == {("99.0.1", "kernel")}
