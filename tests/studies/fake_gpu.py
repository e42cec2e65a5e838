"""A Buffer of a GPU, and as much of torch.cuda as is called, on the CPU's tensors.

The Buffer knows the right answers and refuses what one of a GPU would.
"""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from afdep import elements, proof
from afdep.arms import Arm
from afdep.errors import DeviceAssertion
from afdep.layout import Layout
from afdep.proof import checks
from afdep.reference import Sent
from afdep.shapes import ExchangeShape

torch = pytest.importorskip("torch")
device = pytest.importorskip("harness.studies.validate.device")


class Clock:
    """The part of torch.cuda that a rank calls; a pause moves the clock on."""

    def __init__(self):
        self.now_ms, self.graph = 0.0, None

    def is_current_stream_capturing(self):
        return self.graph is not None

    def run(self, action):
        """Run it now, or as the graph that is being captured is replayed."""
        action() if self.graph is None else self.graph.actions.append(action)

    def sleep(self, cycles):
        def pass_time():
            self.now_ms += cycles / 1.98e6

        self.run(pass_time)


class FakeBuffer:
    """One rank that exchanges with nobody: what it collects is worked out from what it sends."""

    def __init__(self, *, rank, clock, timeout_s, first_timeout_s, arm, layout, **shape):
        self.shape = ExchangeShape(Layout.parse(layout), **shape)
        self.layout, self.rank, self.clock = self.shape.layout, rank, clock
        self.role = self.layout.role(rank)
        self.identity = {"digest": "n0", "protocol": "p", "switches": dict(Arm.parse(arm).switches)}
        self.begun, self.told, self.failure, self.sent = 0, None, None, None

    def _begin(self, bucket):
        assert self.begun or not self.clock.is_current_stream_capturing(), "the first exchange under capture"
        assert bucket <= self.shape.capacity
        self.begun += 1

    def source_dispatch(self, x, ids, weights, bucket, num_tokens):
        self._begin(bucket)
        from afdep.cuda import inputs

        self.sent = inputs.outgoing(self.shape, x, ids, weights, bucket, num_tokens)

    def source_collect(self):
        sent, y = self.sent, torch.full((self.sent.tokens, self.shape.hidden), float("nan"), dtype=torch.bfloat16)
        self.clock.run(lambda: self._collect(sent, y))
        return y

    def _collect(self, sent, y):
        from afdep.cuda.memory import to_numpy

        count = sent.tokens if sent.num_tokens is None else int(sent.num_tokens)
        y.fill_(float("nan"))
        own = [None if one is None else to_numpy(one)[:count] for one in (sent.x, sent.ids, sent.weights, sent.scales)]
        own[0] = own[0].view(elements.BF16 if sent.scales is None else elements.E4M3)
        scales = None if own[3] is None else own[3].view(np.uint32)
        self.failure = self.told or self._wrong(own[1])
        if self.failure is not None:
            return
        y.zero_()
        wanted = proof.expected(self.shape, [Sent(own[0], own[1], own[2], scales)])[0]
        y[:count] = torch.from_numpy(wanted.view(np.int16)).view(torch.bfloat16)

    def _wrong(self, ids):
        for token, lane in np.argwhere((ids < -1) | (ids >= self.shape.num_experts)):
            return DeviceAssertion("expert_out_of_range", self.rank, int(token), int(lane), int(ids[token, lane]))
        for token, row in enumerate(ids):
            routed = row[row >= 0]
            if len(set(routed)) < len(routed):
                return DeviceAssertion("duplicate_expert", self.rank, token, len(row) - 1, int(row[-1]))
        return None

    def ffn_receive(self, bucket, host_counts=False):
        assert not (host_counts and self.clock.is_current_stream_capturing()), "host counts under capture"
        self._begin(bucket)
        counts = SimpleNamespace(rows=self.counts_now()) if host_counts else None
        return SimpleNamespace(x=torch.empty(self.shape.max_received_rows(bucket), 0), host_counts=counts)

    def expert_transform(self, received, out):
        assert out.shape == (len(received.x), self.shape.hidden)

    def ffn_reply(self, received, out):
        self.clock.run(lambda: setattr(self, "failure", self.told))

    def poison(self, bucket):
        assert bucket <= self.shape.capacity

    def synchronize(self):
        assert not self.clock.is_current_stream_capturing(), "synchronised under capture"
        if self.failure is not None:
            raise self.failure

    def close(self):
        self.closed = True


def put_on_cpu(monkeypatch):
    """Tensors of a GPU are the CPU's."""
    for name in ("zeros", "full", "empty"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *told, device=None, make=make, **kinds: make(*told, **kinds))
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)


def opening(monkeypatch):
    """Makes a rank of a trial; the turn that it runs is known to the FFN's part of the fake."""
    from afdep.cuda import inputs

    clock = Clock()
    put_on_cpu(monkeypatch)
    monkeypatch.setattr(inputs, "_check", lambda name, value, shape, dtype: _checked(name, value, shape, dtype))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", clock.is_current_stream_capturing)
    monkeypatch.setattr(torch.cuda, "_sleep", clock.sleep)
    monkeypatch.setattr(torch.cuda, "Event", lambda **kinds: _Event(clock, **kinds))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: _Graph())
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **kinds: _captured(clock, graph))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def open_rank(setup, rank):
        now = SimpleNamespace(turn=None)
        group = SimpleNamespace(rank=rank, buffer=lambda **told: FakeBuffer(rank=rank, clock=clock, **told))
        monkeypatch.setattr(device, "meet", lambda problem=None: None)
        ranks = device.DeviceRank(setup, group)
        monkeypatch.setattr(device, "on_host", lambda received: _received(setup.shape, now.turn.sent, rank))
        counts = lambda: np.diff(_received(setup.shape, now.turn.sent, rank).expert_offsets).tolist()  # noqa: E731
        ranks.buffer.counts_now = counts
        _watch(ranks, now)
        return ranks

    return open_rank


def _watch(ranks, now):
    """Note the turn that is run, for a Buffer that must know what its peers send and are told."""
    run, run_free, enqueue = ranks.run, ranks.run_free, ranks.enqueue
    free = []

    def ran(turn):
        now.turn, wrong = turn, turn.wrong
        if wrong is not None and ranks.buffer.rank != wrong.rank:
            ranks.buffer.told = DeviceAssertion(wrong.name, wrong.rank, -1, -1, -1)
        return run(turn)

    def ran_free(turns):
        free[:] = turns
        return run_free(turns)

    def enqueued(bucket, *told):
        now.turn = free.pop(0) if free else now.turn
        return enqueue(bucket, *told)

    ranks.run, ranks.run_free, ranks.enqueue = ran, ran_free, enqueued


class _Event:
    def __init__(self, clock, enable_timing, external):
        assert enable_timing
        assert external == clock.is_current_stream_capturing(), "an event of a graph must be external"
        self.clock, self.at_ms = clock, None

    def record(self):
        self.clock.run(lambda: setattr(self, "at_ms", self.clock.now_ms))

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


class _Graph:
    def __init__(self):
        self.actions = []

    def replay(self):
        for action in self.actions:
            action()


@contextmanager
def _captured(clock, graph):
    clock.graph = graph
    try:
        yield
    finally:
        clock.graph = None


def _checked(name, value, shape, dtype):
    assert isinstance(value, torch.Tensor), name
    assert value.dtype == dtype, name
    assert value.is_contiguous(), name
    assert all(wanted is None or wanted == found for wanted, found in zip(shape, value.shape, strict=True)), name


def _received(shape, sent, rank):
    """Every row that an FFN rank receives, as `on_host` gives it."""
    from afdep.cuda import HostReceived

    rows = checks.expected_rows(
        [one.topk_idx for one in sent], rank=rank, num_ffn_ranks=shape.layout.ffn_ranks, num_experts=shape.num_experts
    )
    picked = [(sent[source - shape.layout.ffn_ranks], token, lane) for _, source, token, lane in rows]
    x = np.stack([one.x[token] for one, token, _ in picked]) if picked else sent[0].x[:0]
    scales = None if sent[0].scales is None else np.array([one.scales[token] for one, token, _ in picked])
    if scales is not None and not picked:
        scales = sent[0].scales[:0]
    weights = np.array([one.topk_weights[token, lane] for one, token, lane in picked], np.float32)
    offsets = checks.expected_offsets(rows, shape.experts_per_rank)
    return HostReceived(x, weights, scales, offsets, rows[:, 1:].astype(np.int32))
