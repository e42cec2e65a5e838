"""A fresh process in a slot that says what the slot's library is, before anything is planned; it builds on the way.

`python -P -m harness.probe REQUEST` prints one JSON line: native digest, source digest, and an identity per arm.
REQUEST is JSON with the name of the `backend`, `arms`, `layout` and the other keyword arguments of a world.
"""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from harness.digests import harness_digest, source_digest
from harness.identity import Identity, native_digest_of
from harness.leaving import leave


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """What the loaded library reports for each arm of the request."""
    afdep = importlib.import_module("afdep")
    slot = Path(str(afdep.__file__)).resolve().parent.parent
    identify = {"sim": _simulated, "cuda": _on_gpus}[request["backend"]]
    identities = {arm: dataclasses.asdict(identify(request, arm)) for arm in request["arms"]}
    return {
        "slot": str(slot),
        "native_digest": native_digest_of(afdep, request["backend"]),
        "source_digest": source_digest(slot),
        "harness_digest": harness_digest(slot),
        "identities": identities,
    }


def _simulated(request: dict[str, Any], arm: str) -> Identity:
    world = importlib.import_module("afdep").World(request["layout"], arm=arm, **request["world"])
    return Identity.from_report(world.identity)


def _on_gpus(_: dict[str, Any], arm: str) -> Identity:
    """As the built library reports it, which loads without a GPU; a rank's report is compared with this one."""
    build, arms = importlib.import_module("afdep.build"), importlib.import_module("afdep.arms")
    info, parsed = build.build_info(build.build_cuda()), arms.Arm.parse(arm)
    report = {"digest": info["digest"], "protocol": parsed.protocol, "switches": parsed.switches}
    return Identity.from_report(report)


if __name__ == "__main__":
    print(json.dumps(describe(json.loads(sys.argv[1]))), flush=True)
    leave(0)
