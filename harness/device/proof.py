"""Exchanges of known payload on GPUs, compared with the reference bit for bit."""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from afdep import checks, reference, routing
from afdep.cuda import DeviceBuffer, on_host
from afdep.cuda.memory import to_device, to_numpy
from afdep.reference import Sent
from harness.device.settings import Settings


def sent_by(settings: Settings, buffer: DeviceBuffer, tokens: int, seed: int) -> list[Sent]:
    """What every source sends: the same on all ranks that ask with the same seed."""
    return [
        Sent(
            reference.payload(tokens, settings.hidden, seed * buffer.layout.num_ranks + source),
            routing.make(
                settings.routing,
                tokens,
                settings.experts,
                settings.top_k,
                seed * buffer.layout.num_ranks + source,
                zipf_exponent=1.0 if settings.routing == "skew" else None,
                num_ffn_ranks=buffer.layout.ffn_ranks,
            ),
            np.random.default_rng(seed + source).random((tokens, settings.top_k), np.float32),
        )
        for source in range(buffer.layout.attention_ranks)
    ]


def prove(settings: Settings, buffer: DeviceBuffer, tokens: int) -> None:
    """Run exchanges free over poisoned memory through the expert transform, then compare.

    What the FFN ranks received is compared in the last exchange: each overwrites the one before.

    Raises:
        MismatchError: the first difference.
    """
    loads = [sent_by(settings, buffer, tokens, settings.seed + index) for index in range(settings.proofs)]
    buffer.poison(tokens)
    buffer.synchronize()
    dist.barrier()  # a peer's first record must not meet poison that is still to come
    if buffer.role == "attention":
        _prove_source(settings, buffer, tokens, loads)
    else:
        _prove_ffn(settings, buffer, tokens, loads)


def _prove_source(settings: Settings, buffer: DeviceBuffer, tokens: int, loads: list[list[Sent]]) -> None:
    own = buffer.rank - buffer.layout.ffn_ranks
    uploaded = [[to_device(part) for part in (s[own].x, s[own].topk_idx, s[own].topk_weights)] for s in loads]
    collected = []
    for x, ids, weights in uploaded:
        buffer.source_dispatch(x, ids, weights, bucket=tokens)
        collected.append(buffer.source_collect())
    buffer.synchronize()
    for sent, y in zip(loads, collected, strict=True):
        checks.check_collected(
            to_numpy(y), expected(settings, buffer, sent[own], reference.apply_experts), rank=buffer.rank
        )


def _prove_ffn(settings: Settings, buffer: DeviceBuffer, tokens: int, loads: list[list[Sent]]) -> None:
    received = None
    for _ in loads:
        received = buffer.ffn_receive(bucket=tokens)
        out = torch.empty((len(received.x), settings.hidden), dtype=torch.bfloat16, device="cuda")
        buffer.expert_transform(received, out)
        buffer.ffn_reply(received, out)
    buffer.synchronize()
    assert received is not None
    checks.check_received(
        on_host(received),
        loads[-1],
        rank=buffer.rank,
        num_ffn_ranks=buffer.layout.ffn_ranks,
        num_experts=settings.experts,
    )


def expected(settings: Settings, buffer: DeviceBuffer, sent: Sent, expert: reference.Expert) -> Any:
    """What a source must collect where the FFN ranks compute `expert`."""
    return reference.combine(
        sent.x, sent.topk_idx, num_ffn_ranks=buffer.layout.ffn_ranks, num_experts=settings.experts, expert=expert
    )


def unchanged(x: reference.Array, experts: routing.Ids) -> reference.Array:
    """The FFN of a timed exchange: it passes on what it received."""
    return x
