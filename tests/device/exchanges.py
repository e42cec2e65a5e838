"""Exchanges of the device scenarios: payload whose sums are exact, and what must come back."""

from typing import Any

import numpy as np
import torch

from afdep import reference, routing
from afdep.cuda import Buffer
from afdep.cuda.memory import to_device, to_numpy
from harness.device.proving import rows_on_gpu


def drawn(buffer: Buffer, tokens: int, seed: int) -> tuple[Any, Any]:
    """Rows [tokens, H] and ids [tokens, K] of numpy."""
    shape = buffer.shape
    return reference.payload(tokens, shape.hidden, seed), routing.make(
        "random", tokens, shape.num_experts, shape.top_k, seed
    )


def on_gpu(rows: Any, ids: Any) -> tuple[Any, Any]:
    """The same on the current GPU."""
    return rows_on_gpu(rows), to_device(ids)


def passed_on(buffer: Buffer, rows: Any, ids: Any, num_tokens: int | None = None) -> Any:
    """BF16 [T, H] on the GPU: what a source collects when FFN ranks pass on what they receive."""
    shape = buffer.shape
    collected = reference.combine(
        *(rows, ids),
        num_ffn_ranks=shape.layout.ffn_ranks,
        num_experts=shape.num_experts,
        expert=lambda x, experts: x,
        num_tokens=num_tokens,
    )
    return rows_on_gpu(collected)


def same(one: Any, other: Any) -> bool:
    """Whether two BF16 tensors are equal bit for bit."""
    return bool(torch.equal(one.view(torch.int16), other.view(torch.int16)))


def is_poisoned(y: Any) -> bool:
    """Whether nothing but NaN is left of a result."""
    return bool(torch.isnan(y).all())


def pass_on(buffer: Buffer, bucket: int) -> None:
    """The FFN's part: it replies with what it received."""
    received = buffer.ffn_receive(bucket=bucket)
    buffer.ffn_reply(received, received.x)


def exchange(buffer: Buffer, tokens: int = 16, seed: int = 0, y: list[Any] | None = None) -> None:
    """One exchange of this rank, waited for; a source checks what it collected.

    Args:
        buffer: of the rank.
        tokens: of every source, and the bucket.
        seed: of payload and routes.
        y: takes what a source collects, before it is waited for.
    """
    if buffer.role == "ffn":
        pass_on(buffer, tokens)
        buffer.synchronize()
        return
    rows, ids = drawn(buffer, tokens, seed)
    buffer.source_dispatch(*on_gpu(rows, ids), bucket=tokens)
    collected = buffer.source_collect()
    if y is not None:
        y.append(collected)
    buffer.synchronize()
    assert same(collected, passed_on(buffer, rows, ids)), "another result than the reference"


def captured(enqueue: Any) -> Any:
    """A graph of what a function enqueues."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        enqueue()
    return graph


def rows_per_expert(ids: Any, experts: int) -> list[int]:
    """The histogram of ids."""
    return [int(count) for count in np.bincount(to_numpy(ids).ravel(), minlength=experts)]
