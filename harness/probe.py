"""A fresh process in a slot that says what the slot's library is, before anything is planned; it builds on the way.

`python -P -m harness.probe REQUEST` prints one JSON line: native digest, source digest, and an identity per arm.
REQUEST is JSON with `arms`, `layout` and the other keyword arguments of a world.
"""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from harness.digests import harness_digest, source_digest
from harness.identity import Identity
from harness.leaving import leave


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """What the loaded library reports for each arm of the request."""
    afdep = importlib.import_module("afdep")
    slot = Path(str(afdep.__file__)).resolve().parent.parent
    identities = {}
    for arm in request["arms"]:
        loaded = Identity.from_report(afdep.World(request["layout"], arm=arm, **request["world"]).identity)
        identities[arm] = dataclasses.asdict(loaded)
    return {
        "slot": str(slot),
        "native_digest": str(afdep.native_digest()),
        "source_digest": source_digest(slot),
        "harness_digest": harness_digest(slot),
        "identities": identities,
    }


if __name__ == "__main__":
    print(json.dumps(describe(json.loads(sys.argv[1]))), flush=True)
    leave(0)
