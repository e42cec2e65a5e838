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

    rows = buffer.shape.max_received_rows(tokens) if buffer.shape.dtype.groups_per_word else 0
    fixed = torch.ones((_rows(buffer, rows), settings.hidden), dtype=torch.bfloat16, device="cuda")

    def exchange() -> None:
        received = buffer.ffn_receive(bucket=tokens)
        buffer.ffn_reply(received, fixed[: len(received.x)] if rows else received.x)

    return _replay(settings, buffer, exchange)


def _rows(buffer: DeviceBuffer, rows: int) -> int:
    """Rows that a symmetric rank has room for: it takes its own role's tokens as well."""
    return rows * buffer.layout.num_ranks


def _time_source(settings: Settings, buffer: DeviceBuffer, tokens: int) -> list[float]:
    sent = proof.sent_by(settings, buffer, tokens, settings.seed)[buffer.rank - buffer.layout.ffn_ranks]
    x, ids = proof.uploaded(sent), to_device(sent.topk_idx)
    y = torch.empty((tokens, settings.hidden), dtype=torch.bfloat16, device="cuda")

    def exchange() -> None:
        buffer.source_dispatch(x, ids, bucket=tokens)
        buffer.source_collect(out=y)

    samples = _replay(settings, buffer, exchange)
    checks.check_collected(to_numpy(y), proof.passed_on(settings, buffer, sent), rank=buffer.rank)
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
