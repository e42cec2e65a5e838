"""Exchanges of known payload on GPUs, compared with the reference bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from harness.ranks import contract


def uploaded(sent: Any) -> Any:
    """What `source_dispatch` takes as x: the rows on the GPU, with their scale words where they have some."""
    if sent.scales is None:
        return rows_on_gpu(sent.x)
    to_device = contract.on_gpus().memory.to_device
    return to_device(sent.x.view(np.uint8)).view(torch.float8_e4m3fn), to_device(sent.scales.view(np.int32))


def rows_on_gpu(rows: Any) -> Any:
    """BF16 rows, or their bits, as a BF16 tensor of the current device."""
    return contract.on_gpus().memory.to_device(rows.view(np.int16)).view(torch.bfloat16)


def prove(buffer: Any, loads: Sequence[Any], bucket: int, seed: int) -> None:
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
    draw = contract.modules().payload.draw
    exchanges = [draw(buffer, load, seed + index) for index, load in enumerate(loads)]
    buffer.poison(bucket)
    buffer.synchronize()
    dist.barrier(buffer.group)  # a peer's first record must not meet poison that is still to come
    if buffer.role == "attention":
        _prove_source(buffer, [sent[buffer.rank - buffer.layout.ffn_ranks] for sent in exchanges], bucket)
    else:
        received = serve(buffer, len(exchanges), bucket)
        buffer.synchronize()
        check_received(buffer, received, exchanges[-1])


def _prove_source(buffer: Any, own: Sequence[Any], bucket: int) -> None:
    tree, memory = contract.modules(), contract.on_gpus().memory
    collected = []
    for x, ids, weights in arguments(own):
        buffer.source_dispatch(x, ids, weights, bucket=bucket)
        collected.append(buffer.source_collect())
    buffer.synchronize()
    for sent, y in zip(own, collected, strict=True):
        expected = tree.payload.expected(buffer.shape, [sent])[0]
        tree.checks.check_collected(memory.to_numpy(y), expected, rank=buffer.rank)


def arguments(own: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    """What a source passes in each of its exchanges: rows, ids, weights."""
    to_device = contract.on_gpus().memory.to_device
    return [(uploaded(sent), to_device(sent.topk_idx), to_device(sent.topk_weights)) for sent in own]


def serve(buffer: Any, exchanges: int, bucket: int) -> Any:
    """Receive and reply through the expert transform, as an FFN rank; what the last exchange brought."""
    received = None
    for _ in range(exchanges):
        received = buffer.ffn_receive(bucket=bucket)
        out = torch.empty((len(received.x), buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")
        buffer.expert_transform(received, out)
        buffer.ffn_reply(received, out)
    return received


def check_received(buffer: Any, received: Any, sent: Sequence[Any]) -> None:
    """Compare what an FFN rank received with what the sources sent. Raises MismatchError."""
    contract.modules().checks.check_received(
        contract.on_gpus().cuda.on_host(received),
        sent,
        rank=buffer.rank,
        num_ffn_ranks=buffer.layout.ffn_ranks,
        num_experts=buffer.shape.num_experts,
    )
