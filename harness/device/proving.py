"""Exchanges of known payload on GPUs, compared with the reference bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from afdep import proof
from afdep.cuda import Buffer, on_host
from afdep.cuda.memory import to_device, to_numpy
from afdep.proof import checks
from afdep.reference import Sent


def uploaded(sent: Sent) -> Any:
    """What `source_dispatch` takes as x: the rows on the GPU, with their scale words where they have some."""
    if sent.scales is None:
        return rows_on_gpu(sent.x)
    return to_device(sent.x.view(np.uint8)).view(torch.float8_e4m3fn), to_device(sent.scales.view(np.int32))


def rows_on_gpu(rows: Any) -> Any:
    """BF16 rows, or their bits, as a BF16 tensor of the current device."""
    return to_device(rows.view(np.int16)).view(torch.bfloat16)


def prove(buffer: Buffer, loads: Sequence[Any], bucket: int, seed: int) -> None:
    """Run exchanges free over poisoned memory through the expert transform, then compare.

    What the FFN ranks received is compared in the last exchange: each overwrites the one before.

    Args:
        buffer: this rank's.
        loads: the routes of each exchange.
        bucket: of all of them.
        seed: of the payload, which differs from exchange to exchange.

    Raises:
        MismatchError: the first difference.
    """
    exchanges = [proof.draw(buffer, load, seed + index) for index, load in enumerate(loads)]
    buffer.poison(bucket)
    buffer.synchronize()
    dist.barrier(buffer.group)  # a peer's first record must not meet poison that is still to come
    if buffer.role == "attention":
        _prove_source(buffer, [sent[buffer.rank - buffer.layout.ffn_ranks] for sent in exchanges], bucket)
    else:
        _prove_ffn(buffer, exchanges, bucket)


def _prove_source(buffer: Buffer, own: Sequence[Sent], bucket: int) -> None:
    arguments = [(uploaded(sent), to_device(sent.topk_idx), to_device(_present(sent.topk_weights))) for sent in own]
    collected = []
    for x, ids, weights in arguments:
        buffer.source_dispatch(x, ids, weights, bucket=bucket)
        collected.append(buffer.source_collect())
    buffer.synchronize()
    for sent, y in zip(own, collected, strict=True):
        checks.check_collected(to_numpy(y), proof.expected(buffer.shape, [sent])[0], rank=buffer.rank)


def _prove_ffn(buffer: Buffer, exchanges: Sequence[Sequence[Sent]], bucket: int) -> None:
    received = None
    for _ in exchanges:
        received = buffer.ffn_receive(bucket=bucket)
        out = torch.empty((len(received.x), buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")
        buffer.expert_transform(received, out)
        buffer.ffn_reply(received, out)
    buffer.synchronize()
    assert received is not None
    checks.check_received(
        on_host(received),
        exchanges[-1],
        rank=buffer.rank,
        num_ffn_ranks=buffer.layout.ffn_ranks,
        num_experts=buffer.shape.num_experts,
    )


def _present(weights: Any) -> Any:
    assert weights is not None
    return weights
