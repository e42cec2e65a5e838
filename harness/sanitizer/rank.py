"""One rank of 1A1F under a tool: `python -P -m harness.sanitizer.rank ARM` with its number in RANK, its GPU's in GPU.

A few exchanges of small rows, called by the host, compared bit for bit. Waits may take most of a run: under a tool
everything is fifty to a hundred times slower. The process ends as any other, for the tool's sake.
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from afdep import routing
from afdep.cuda import Buffer
from afdep.routing import Load
from harness import events
from harness.device import proving

EXACT = "sanitizer exact"
"""What a rank says once its exchanges are compared: `exchanges`, and its library's `digest`."""

EXCHANGES, TOKENS = 2, 8
_WAIT_S = 60.0
_EXPERTS, _TOP_K = 16, 4


def main(arm: str, gpu: int) -> int:
    """Exchange, compare and say so."""
    torch.cuda.set_device(gpu)
    dist.init_process_group("gloo", timeout=timedelta(seconds=_WAIT_S))
    buffer = Buffer(
        None,
        layout="1A1F",
        hidden=256,
        num_experts=_EXPERTS,
        top_k=_TOP_K,
        capacity=2 * TOKENS,
        arm=arm,
        transport_sms=4,
        timeout_s=_WAIT_S,
        first_timeout_s=_WAIT_S,
        maker="ipc",
    )
    loads = [Load([routing.make("random", TOKENS, _EXPERTS, _TOP_K, seed)]) for seed in range(EXCHANGES)]
    proving.prove(buffer, loads, TOKENS, 0)
    events.say(EXACT, exchanges=EXCHANGES, digest=str(buffer.identity["digest"]))
    buffer.close()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(os.environ["GPU"])))
