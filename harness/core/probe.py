"""A fresh process in a slot that says what the slot is, before anything is planned; it builds on the way.

`python -P -m harness.core.probe REQUEST` prints one JSON line: native digests, the identity of each arm, and the Python
files that driver, workers and ranks of the study load. REQUEST is JSON with `study`, `backends` and `arms`, each an arm
with its backend and the shape of a World. Packages that this machine lacks are stood in for, so that what is
loaded does not depend on them: a plan for GPUs can be made where there is no torch.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from harness.core.identity import Identity, loaded
from harness.core.process import REPORT, Mouth, leave
from harness.core.worker import backends
from harness.study import program

OPTIONAL = ("torch", "deep_ep")
_DRIVER = ("harness.core.executor", "harness.core.worker", "harness.ranks.contract")


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of optional packages that are not installed, all of whose names are there and mean nothing."""

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        ours = name.partition(".")[0] in OPTIONAL
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        stand_in: Any = MagicMock(name=spec.name)
        stand_in.__path__ = []
        stand_in.__spec__ = spec
        return stand_in  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        return None


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """What the loaded tree is."""
    sys.meta_path.append(_Absent())  # behind all others: what is installed is taken as it is
    studied: Any = program(request["study"])
    wanted: Sequence[str] = [one for backend in request["backends"] for one in backends(studied, backend)]
    for module in (*_DRIVER, *wanted):
        importlib.import_module(module)
    contract = importlib.import_module("harness.ranks.contract")
    for backend in request["backends"]:
        contract.load(backend)
    afdep = importlib.import_module("afdep")
    slot = Path(str(afdep.__file__)).resolve().parent.parent
    identities = [
        Identity.from_report(contract.identity(one["backend"], one["arm"], one["shape"])).__dict__
        for one in request["arms"]
    ]
    own = Path(str(importlib.import_module("harness").__file__)).resolve().parent.parent
    return {
        "contract": contract.number(),
        "native": {backend: contract.native_digest(backend) for backend in request["backends"]},
        "identities": identities,
        "library": loaded("afdep", slot),
        "measuring": loaded("harness", own),
    }


if __name__ == "__main__":
    mouth = Mouth()
    mouth.say(REPORT, **describe(json.loads(sys.argv[1])))
    leave(0)
