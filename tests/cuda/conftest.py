import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cuda.kernels import DIRECTED, PRIMITIVES, ROOT, ROWS, SYMMETRIC, Compiled, compiled


@pytest.fixture(scope="session")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Compiled]:
    """The four sources of kernels, as they stand in this tree."""
    return {s: compiled(ROOT / s, tmp_path_factory.mktemp("cubin")) for s in (SYMMETRIC, DIRECTED, PRIMITIVES, ROWS)}


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """Copy the native sources and change one of them; fails where there is nothing to change."""

    def plant(name: str, old: str, new: str) -> Path:
        for part in ("vendor", "afdep/csrc"):
            shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
        file = tmp_path / name
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), "utf-8")
        return tmp_path

    return plant
