"""One rank of a device run: `python -m harness.device.rank SETTINGS RESULT`, started by harness.device.launch.

Every rank writes RESULT.RANK.json: its identity, and for each token count the samples or the reason there are none.
"""

import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afdep.cuda import DeviceBuffer
from harness.device import proof, timing
from harness.device.settings import Settings

_HOST_TIMEOUT = timedelta(seconds=120)
_WAIT_TIMEOUT_S = 10.0


def main(settings_path: Path, result: Path) -> int:
    """Measure every cell and write the result; 1 if one failed."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    settings = Settings.load(settings_path)
    outcome: dict[str, Any] = {"rank": rank, "cells": []}
    try:
        _measure(settings, outcome)
    except Exception as error:
        traceback.print_exc()
        outcome["failure"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    result.with_name(f"{result.name}.{rank}.json").write_text(json.dumps(outcome), encoding="utf-8")
    sys.stdout.flush()
    # A peer may be gone and never take part in a tear-down.
    os._exit(int("failure" in outcome))


def _measure(settings: Settings, outcome: dict[str, Any]) -> None:
    buffer = DeviceBuffer(
        None,
        layout=settings.layout,
        hidden=settings.hidden,
        num_experts=settings.experts,
        top_k=settings.top_k,
        capacity=settings.capacity,
        arm=settings.arm,
        dispatch_dtype=settings.dtype,
        transport_sms=settings.transport_sms,
        timeout_s=_WAIT_TIMEOUT_S,
        maker=None if settings.maker == "auto" else settings.maker,  # type: ignore[arg-type]
    )
    outcome |= {
        "role": buffer.role,
        "identity": buffer.identity,
        "registered_bytes": buffer.registered_bytes,
        "construction_s": buffer.construction_s,
        "device": torch.cuda.get_device_name(),
        "gpus": torch.cuda.device_count(),
    }
    for tokens in settings.tokens:
        proof.prove(settings, buffer, tokens)
        dist.barrier()
        outcome["cells"].append({"tokens": tokens, "samples_us": timing.time_exchanges(settings, buffer, tokens)})
        dist.barrier()
    buffer.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
