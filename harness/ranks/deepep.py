"""The external arm `deepep`: an installed `deep_ep` used as many-to-many, where it can be.

How it is to be used is settled: FFN ranks first; as many expert slots a rank as an FFN rank has experts, those of
Attention ranks dummies that no route names, so that ids stay as they are; the expanded layout; a call's capacity of its
own tokens; no weights, no handle copy and no host counts, so that calls can be captured.

What is not settled is the spelling. The facts that this tree works from name the settings, but neither the class nor
the signatures, and its source is closed to whoever works here. So an installed library voids the cells, with its
version as the reason, and a screen goes on.
"""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from harness.ranks.endpoint import Opening
from harness.study import VoidError

PACKAGE = "deep_ep"


def open_end(group: Any, what: Opening) -> NoReturn:
    """Say why the arm is void here.

    Raises:
        VoidError: always.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise VoidError(f"{PACKAGE} is not installed")
    raise VoidError(f"{PACKAGE} {_version()} is installed, but this tree does not know how to call it")


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "of no known version"
