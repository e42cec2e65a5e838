"""The tree that this package belongs to: where `vendor`, `conf`, `afdep/csrc` and the published records lie."""

from pathlib import Path

CARRIED = "_tree"
"""The folder of the package in which a wheel carries them."""


def root() -> Path:
    """The root of the tree.

    In a checkout and in an exported slot it is the folder that holds the package. A wheel carries the same files under
    the same names inside the package.
    """
    package = Path(__file__).resolve().parent
    carried = package / CARRIED
    return carried if carried.is_dir() else package.parent
