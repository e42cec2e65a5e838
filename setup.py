"""What pyproject.toml cannot say of a wheel: it carries the tree's data inside the package, where `afdep.tree` looks.

With WHEEL_TARGET=cuda it also carries the built CUDA library, and is a wheel for this platform.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
DATA = ("vendor", "conf", "records/published", "records/upstream", "afdep/csrc")
CARRIES_CUDA = os.environ.get("WHEEL_TARGET", "sim") == "cuda"

sys.path.insert(0, str(ROOT))  # a build backend does not look where it is started

from afdep import build, tree  # noqa: E402


class BuildPy(build_py):
    """Lays the tree's data into the package, in a folder that held nothing before."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        carried = Path(self.build_lib) / "afdep" / tree.CARRIED
        for name in DATA:
            shutil.copytree(ROOT / name, carried / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        if CARRIES_CUDA:
            build.carry(carried.resolve())


class BdistWheel(bdist_wheel):
    """Any Python 3 runs what is inside; a carried library is for one platform."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = not CARRIES_CUDA

    def get_tag(self) -> tuple[str, str, str]:
        platform = super().get_tag()[2]
        return ("py3", "none", platform)


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
