"""Trials on the simulator: all ranks of a World in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import KernelTime, Received, ShapeError, World, proof
from afdep.reference import Sent
from afdep.sim import inputs
from afdep.sim.graph import Graph
from harness.validation.cases import Trial
from harness.validation.comparing import Delivered
from harness.validation.endpoint import NotPlayableError
from harness.validation.turns import Turn


def open_end(trial: Trial) -> "SimulatedEnd":
    """A World of the trial's shape.

    Raises:
        NotPlayableError: the simulator, its machine or the arm has no such thing.
    """
    if trial.case.host_counts:
        raise NotPlayableError("counts on the host are read back on GPUs alone")
    if trial.case.one_role:
        raise NotPlayableError("the ranks of a simulated group have one arm")
    try:
        return SimulatedEnd(trial, World(**trial.world_fields(), machine=trial.machine, mode="check"))
    except ShapeError as error:
        raise NotPlayableError(error.problem) from error


class SimulatedEnd:
    """The ranks of a World, as `harness.validation.endpoint.End` says."""

    def __init__(self, trial: Trial, world: World):
        self.trial = trial
        self.world = world
        self.shape = world.shape
        self.identity: Mapping[str, Any] = world.identity
        self.late = 0
        self.replays = 0
        self._graphs: dict[int, _Captured] = {}
        self._collected: Sequence[NDArray[Any]] = ()

    def play(self, turn: Turn) -> Delivered:
        """One exchange."""
        if self.trial.mode == "graph":
            return self._replay(turn)
        self.world.poison(turn.bucket)
        delivered = self._enqueue(turn)
        self._run()
        return delivered

    def play_free(self, turns: Sequence[Turn]) -> list[Delivered]:
        """Exchanges one behind the other."""
        self.world.poison(max(turn.bucket for turn in turns))
        delivered = [self._enqueue(turn) for turn in turns]
        self._run()
        return [Delivered(one.collected, ()) for one in delivered[:-1]] + delivered[-1:]

    def poisoned_results(self) -> bool:
        """Whether every element is NaN."""
        return all(bool(np.isnan(y.astype(np.float32)).all()) for y in self._collected)

    @property
    def informed_ranks(self) -> Sequence[int]:
        return self.world.informed_ranks

    def _enqueue(self, turn: Turn) -> Delivered:
        self._delay_source()
        received = proof.dispatch(self.world, turn.sent, turn.bucket)
        return self._combine(received)

    def _combine(self, received: Sequence[Received]) -> Delivered:
        for ffn, rows in zip(self.world.ffns, received, strict=True):
            out = self.world.expert_transform(ffn.rank)
            if ffn.rank == self._late_ffn and self.trial.case.delay_ffn_us:
                self.world.delay(ffn.rank, self.trial.case.delay_ffn_us)
            ffn.ffn_reply(rows, out)
        self._collected = [source.source_collect() for source in self.world.sources]
        return Delivered(self._collected, received)

    def _replay(self, turn: Turn) -> Delivered:
        if turn.bucket not in self._graphs:
            self._graphs[turn.bucket] = self._capture(turn.bucket)
        captured = self._graphs[turn.bucket]
        captured.take(turn.sent)
        self.world.poison(turn.bucket)
        self._delay_source()
        captured.graph.replay()
        self.replays += 1
        self._collected = captured.delivered.collected
        self._run()
        return captured.delivered

    def _capture(self, bucket: int) -> "_Captured":
        inputs_ = [_Inputs.of(self.world, source.rank, bucket) for source in self.world.sources]
        with self.world.capture() as graph:
            for source, own in zip(self.world.sources, inputs_, strict=True):
                source.source_dispatch(own.payload, own.ids, own.weights, bucket=bucket, num_tokens=own.count)
            delivered = self._combine([ffn.ffn_receive(bucket=bucket) for ffn in self.world.ffns])
        return _Captured(graph, inputs_, delivered)

    def _delay_source(self) -> None:
        if self.trial.case.delay_source_us:
            self.world.delay(self._late_source, self.trial.case.delay_source_us)

    def _run(self) -> None:
        self.world.simulator.take_trace()
        self.world.run()
        trace = self.world.simulator.take_trace()
        self.late += self._shows_source(trace) or self._shows_ffn(trace)

    @property
    def _late_source(self) -> int:
        return self.world.sources[0].rank

    @property
    def _late_ffn(self) -> int:
        return self.world.ffns[-1].rank

    def _shows_source(self, trace: Sequence[KernelTime]) -> bool:
        """Whether the late source's dispatch began so much later than the first one of all."""
        starts = {one.rank: one.start_us for one in trace if one.name == "dispatch"}
        pause = self.trial.case.delay_source_us
        return pause > 0 and starts[self._late_source] - min(starts.values()) >= pause

    def _shows_ffn(self, trace: Sequence[KernelTime]) -> bool:
        """Whether the late FFN rank's combine began so long after its expert transform had ended."""
        own = {one.name: one for one in trace if one.rank == self._late_ffn}
        pause = self.trial.case.delay_ffn_us
        return pause > 0 and own["combine"].start_us - own["expert_transform"].end_us >= pause


@dataclass(frozen=True)
class _Inputs:
    """Memory of a source that a graph reads: rows, scales, ids, weights, and the word that says how many rows count."""

    x: NDArray[Any]
    scales: NDArray[Any] | None
    ids: NDArray[Any]
    weights: NDArray[Any]
    count: NDArray[Any]

    @classmethod
    def of(cls, world: World, rank: int, bucket: int) -> "_Inputs":
        shape = world.shape
        words = shape.dtype.scale_bytes(shape.hidden) // 4
        return cls(
            x=world.empty(rank, (bucket, shape.hidden), inputs.element(shape.dtype)),
            scales=world.empty(rank, (bucket, words), np.uint32) if words else None,
            ids=world.empty(rank, (bucket, shape.top_k), np.int64),
            weights=world.empty(rank, (bucket, shape.top_k), np.float32),
            count=world.empty(rank, (1,), np.int32),
        )

    @property
    def payload(self) -> object:
        return self.x if self.scales is None else (self.x, self.scales)

    def take(self, sent: Sent) -> None:
        """Hold what a source sends; rows past its tokens keep what was there."""
        count = len(sent.x)
        self.count[0] = count
        self.x[:count] = sent.x.view(self.x.dtype)
        self.ids[:count] = sent.topk_idx
        self.weights[:count] = sent.topk_weights
        if self.scales is not None and sent.scales is not None:
            self.scales[:count] = sent.scales.view(np.uint32)


@dataclass(frozen=True)
class _Captured:
    """An exchange of one bucket as a graph, its inputs and what its replays fill."""

    graph: Graph
    inputs: Sequence[_Inputs]
    delivered: Delivered

    def take(self, sent: Sequence[Sent]) -> None:
        for own, one in zip(self.inputs, sent, strict=True):
            own.take(one)
