"""Exchanges of known payload on GPUs, compared with the reference bit for bit."""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from afdep import checks, fp8, proof, reference, routing
from afdep.cuda import DeviceBuffer, on_host
from afdep.cuda.memory import to_device, to_numpy
from afdep.reference import Sent
from harness.device.settings import Settings


def sent_by(settings: Settings, buffer: DeviceBuffer, tokens: int, seed: int) -> list[Sent]:
    """What every source sends: the same on all ranks that ask with the same seed."""
    return [_sent(settings, buffer, tokens, seed, source) for source in range(buffer.layout.attention_ranks)]


def _sent(settings: Settings, buffer: DeviceBuffer, tokens: int, seed: int, source: int) -> Sent:
    own_seed = seed * buffer.layout.num_ranks + source
    ids = routing.make(
        settings.routing,
        tokens,
        settings.experts,
        settings.top_k,
        own_seed,
        zipf_exponent=1.0 if settings.routing == "skew" else None,
        num_ffn_ranks=buffer.layout.ffn_ranks,
    )
    weights = np.random.default_rng(seed + source).random((tokens, settings.top_k), np.float32)
    if buffer.shape.dtype.groups_per_word == 0:
        return Sent(reference.payload(tokens, settings.hidden, own_seed), ids, weights)
    x, scales = fp8.payload(tokens, settings.hidden, buffer.shape.dtype, own_seed)
    return Sent(x, ids, weights, scales)


def uploaded(sent: Sent) -> Any:
    """What `source_dispatch` takes as x: the rows on the GPU, with their scale words where they have some."""
    if sent.scales is None:
        return to_device(sent.x)
    return to_device(sent.x.view(np.uint8)).view(torch.float8_e4m3fn), to_device(sent.scales.view(np.int32))


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
    arguments = [
        (uploaded(s[own]), to_device(s[own].topk_idx), to_device(_present(s[own].topk_weights))) for s in loads
    ]
    collected = []
    for x, ids, weights in arguments:
        buffer.source_dispatch(x, ids, weights, bucket=tokens)
        collected.append(buffer.source_collect())
    buffer.synchronize()
    for sent, y in zip(loads, collected, strict=True):
        checks.check_collected(to_numpy(y), proof.expected(buffer.shape, [sent[own]])[0], rank=buffer.rank)


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


def _present(weights: Any) -> Any:
    assert weights is not None
    return weights


def passed_on(settings: Settings, buffer: DeviceBuffer, sent: Sent) -> Any:
    """What a source must collect of a timed exchange, whose FFN ranks pass on what they received, or ones for FP8."""
    x = sent.x if sent.scales is None else np.ones((len(sent.x), settings.hidden), reference.BF16)
    ranks, experts = buffer.layout.ffn_ranks, settings.experts
    return reference.combine(x, sent.topk_idx, num_ffn_ranks=ranks, num_experts=experts, expert=lambda rows, _: rows)
