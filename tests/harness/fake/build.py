"""Becomes afdep/build.py of a fake tree: nothing to compile, and a library that is as its sources say."""

from pathlib import Path
from typing import Literal

from afdep.digest import native_digest

Fiber = Literal["warp", "thread"]


def build():
    return Path("none")


def build_cuda():
    return None


def build_info(library):
    return {"digest": str(native_digest("cuda")), "target": "fake", "fiber": "none"}
