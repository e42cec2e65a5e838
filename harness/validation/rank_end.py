"""A rank's Buffer, as `harness.validation.part.RankEnd` says."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from afdep.cuda import Buffer, on_host
from afdep.cuda.memory import to_device, to_numpy
from afdep.elements import to_float32
from afdep.errors import MismatchError
from afdep.proof import checks
from afdep.reference import Sent
from harness.device.proving import uploaded
from harness.validation.cases import Trial
from harness.validation.meeting import Meeting
from harness.validation.turns import Turn

_TIMEOUT_S, _FIRST_TIMEOUT_S = 3.0, 10.0
"""Of one wait on the device. Ranks meet before each exchange; ahead of the first, torch may still load kernels."""

_CYCLES_PER_US = 2000
"""No GPU of the kind runs its SMs faster, so a pause of so many cycles is as long as was asked for, or longer."""


class RankEnd:
    """One rank; its making is collective.

    Args:
        trial: what is played.
        arm: of this rank.
        group: of the trial's ranks, None for the default one.
    """

    def __init__(self, trial: Trial, arm: str, group: Any = None):
        self.trial = trial
        told = trial.world_fields() | {"arm": arm, "timeout_s": _TIMEOUT_S, "first_timeout_s": _FIRST_TIMEOUT_S}
        self.buffer = Buffer(group, **told)
        self.meet = Meeting(group).meet
        self.rank, self.shape = self.buffer.rank, self.buffer.shape
        self.late = self.replays = self.counted = 0
        self._is_source = self.buffer.role == "attention"
        self._source = self.rank - self.buffer.layout.ffn_ranks
        self._graphs: dict[int, _Captured] = {}
        self._y: Any = None
        self._before: tuple[Turn, Any] | None = None
        self._pauses: list[tuple[Any, Any]] = []

    def play(self, turn: Turn) -> Any:
        """One exchange."""
        if self.trial.mode == "graph" and turn.bucket not in self._graphs:
            self._graphs[turn.bucket] = self._capture(turn.bucket)
        arguments = self._arguments(turn)
        self._poison(turn.bucket)
        result = self._replay(turn, arguments) if self.trial.mode == "graph" else self._enqueue(turn.bucket, arguments)
        self._host_counts(turn, result)
        self.buffer.synchronize()
        self._count_pauses()
        return to_numpy(result) if self._is_source else on_host(result)

    def play_free(self, turns: Sequence[Turn]) -> list[Any]:
        """Exchanges one behind the other."""
        arguments = [self._arguments(turn) for turn in turns]
        self._poison(max(turn.bucket for turn in turns))
        results = [self._enqueue(turn.bucket, own) for turn, own in zip(turns, arguments, strict=True)]
        self.buffer.synchronize()
        if self._is_source:
            return [to_numpy(y) for y in results]
        return [None] * (len(turns) - 1) + [on_host(results[-1])]

    def poisoned_result(self) -> bool:
        """Whether every element that a source collected is NaN."""
        return not self._is_source or bool(np.isnan(to_float32(to_numpy(self._y))).all())

    def close(self) -> None:
        """Give everything back, whatever the Buffer ended with; collective."""
        self._graphs.clear()
        self._y = self._before = None
        self.buffer.close()

    def _arguments(self, turn: Turn) -> Any:
        """What a source passes, on its GPU."""
        if not self._is_source:
            return None
        own = turn.sent[self._source]
        return uploaded(own), to_device(own.topk_idx), to_device(_present(own.topk_weights))

    def _poison(self, bucket: int) -> None:
        """Poison what the exchange writes; a peer's first record must not meet poison that is still to come."""
        self.buffer.poison(bucket)
        self.buffer.synchronize()
        self.meet()

    def _enqueue(self, bucket: int, arguments: Any, num_tokens: Any = None) -> Any:
        case = self.trial.case
        if self._is_source:
            self._pause(case.delay_source_us if self._source == 0 else 0)
            x, ids, weights = arguments
            self.buffer.source_dispatch(x, ids, weights, bucket, num_tokens)
            self._y = self.buffer.source_collect()
            return self._y
        received = self.buffer.ffn_receive(bucket, host_counts=case.host_counts)
        out = torch.empty((len(received.x), self.shape.hidden), dtype=torch.bfloat16, device="cuda")
        self.buffer.expert_transform(received, out)
        self._pause(case.delay_ffn_us if self.rank == self.buffer.layout.ffn_ranks - 1 else 0)
        self.buffer.ffn_reply(received, out)
        return received

    def _pause(self, us: int) -> None:
        if us:
            external = torch.cuda.is_current_stream_capturing()
            before, after = (torch.cuda.Event(enable_timing=True, external=external) for _ in range(2))
            before.record()
            torch.cuda._sleep(us * _CYCLES_PER_US)
            after.record()
            self._pauses.append((before, after))

    def _count_pauses(self) -> None:
        """An exchange is late where the time between the events around its pause is as long as was asked for."""
        asked = self.trial.case.delay_ffn_us + self.trial.case.delay_source_us
        self.late += any(before.elapsed_time(after) * 1e3 >= asked for before, after in self._pauses)
        if self.trial.mode == "eager":
            self._pauses.clear()

    def _host_counts(self, turn: Turn, received: Any) -> None:
        """Compare the counts of the exchange before, now that this one is under way."""
        if self._is_source or not self.trial.case.host_counts:
            return
        if self._before is not None:
            earlier, pending = self._before
            self._check_counts(earlier, pending.host_counts.rows)
            self.counted += 1
        self._before = (turn, received)

    def _check_counts(self, turn: Turn, found: Sequence[int]) -> None:
        rows = checks.expected_rows(
            [one.topk_idx for one in turn.sent],
            rank=self.rank,
            num_ffn_ranks=self.buffer.layout.ffn_ranks,
            num_experts=self.shape.num_experts,
        )
        wanted = np.bincount(rows[:, checks.EXPERT], minlength=self.shape.experts_per_rank).tolist()
        if list(found) != wanted:
            raise MismatchError("host counts", wanted, list(found), self.rank)

    def _capture(self, bucket: int) -> "_Captured":
        if not self._graphs:
            self._first(bucket)
        inputs = self._inputs(bucket) if self._is_source else None
        result: list[Any] = []

        def enqueue() -> None:
            told = ((inputs.payload, inputs.ids, inputs.weights), inputs.count) if inputs else (None, None)
            result.append(self._enqueue(bucket, *told))

        return _Captured(_graph(enqueue), inputs, result[0])

    def _first(self, bucket: int) -> None:
        """An exchange ahead of the first capture, without tokens: peers may still be loading."""
        empty = self._inputs(bucket) if self._is_source else None
        self._enqueue(bucket, (empty.payload, empty.ids, empty.weights) if empty else None, 0 if empty else None)
        self.buffer.synchronize()
        self._pauses.clear()

    def _inputs(self, bucket: int) -> "_Inputs":
        return _Inputs(self.shape, bucket)

    def _replay(self, turn: Turn, arguments: Any) -> Any:
        captured = self._graphs[turn.bucket]
        if captured.inputs is not None:
            captured.inputs.take(turn.sent[self._source], arguments)
            torch.cuda.current_stream().synchronize()
            self._y = captured.result
        captured.graph.replay()
        self.replays += 1
        return captured.result


class _Inputs:
    """Tensors of a source that a graph reads: rows, scales, ids without routes, weights, and how many rows count."""

    def __init__(self, shape: Any, bucket: int):
        words = shape.dtype.scale_bytes(shape.hidden) // 4
        kind = torch.float8_e4m3fn if words else torch.bfloat16
        self.x = torch.zeros((bucket, shape.hidden), dtype=torch.float32, device="cuda").to(kind)
        self.scales = torch.zeros((bucket, words), dtype=torch.int32, device="cuda") if words else None
        self.ids = torch.full((bucket, shape.top_k), -1, dtype=torch.int64, device="cuda")
        self.weights = torch.zeros((bucket, shape.top_k), dtype=torch.float32, device="cuda")
        self.count = torch.zeros(1, dtype=torch.int32, device="cuda")

    @property
    def payload(self) -> Any:
        return self.x if self.scales is None else (self.x, self.scales)

    def take(self, sent: Sent, arguments: Any) -> None:
        """Hold what a source sends; rows past its tokens keep what was there."""
        (payload, ids, weights), count = arguments, len(sent.x)
        x, scales = (payload, None) if self.scales is None else payload
        self.x[:count].copy_(x)
        self.ids[:count].copy_(ids)
        self.weights[:count].copy_(weights)
        if self.scales is not None:
            self.scales[:count].copy_(scales)
        self.count.fill_(count)


class _Captured:
    """An exchange of one bucket as a graph, what it reads, and what its replays fill."""

    def __init__(self, graph: Any, inputs: _Inputs | None, result: Any):
        self.graph, self.inputs, self.result = graph, inputs, result


def _graph(enqueue: Callable[[], None]) -> Any:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        enqueue()
    return graph


def _present(weights: Any) -> Any:
    assert weights is not None
    return weights
