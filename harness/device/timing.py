"""Round trips by replays of a graph that holds exchanges one behind the other."""

from typing import Any

import torch
import torch.distributed as dist

from afdep import checks
from afdep.cuda import DeviceBuffer
from afdep.cuda.memory import to_device, to_numpy
from harness.device import proof
from harness.device.settings import Settings


def time_exchanges(settings: Settings, buffer: DeviceBuffer, tokens: int) -> list[float]:
    """The round trip in us, one figure a replay: events around a replay, over the exchanges it holds.

    Every replay starts behind a barrier of the hosts and a synchronisation. The FFN ranks pass on what they received,
    and the sources' last result is compared with the reference.

    Raises:
        MismatchError: the replays delivered something else than the reference.
    """
    if buffer.role == "attention":
        return _time_source(settings, buffer, tokens)

    def exchange() -> None:
        received = buffer.ffn_receive(bucket=tokens)
        buffer.ffn_reply(received, received.x)

    return _replay(settings, buffer, exchange)


def _time_source(settings: Settings, buffer: DeviceBuffer, tokens: int) -> list[float]:
    sent = proof.sent_by(settings, buffer, tokens, settings.seed)[buffer.rank - buffer.layout.ffn_ranks]
    x, ids = to_device(sent.x), to_device(sent.topk_idx)
    y = torch.empty_like(x)

    def exchange() -> None:
        buffer.source_dispatch(x, ids, bucket=tokens)
        buffer.source_collect(out=y)

    samples = _replay(settings, buffer, exchange)
    checks.check_collected(to_numpy(y), proof.expected(settings, buffer, sent, proof.unchanged), rank=buffer.rank)
    return samples


def _replay(settings: Settings, buffer: DeviceBuffer, exchange: Any) -> list[float]:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(settings.exchanges):
            exchange()
    samples = []
    for _ in range(settings.warm_up + settings.replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        dist.barrier()
        start.record()
        graph.replay()
        end.record()
        buffer.synchronize()
        samples.append(start.elapsed_time(end) * 1e3 / settings.exchanges)
    return samples[settings.warm_up :]
