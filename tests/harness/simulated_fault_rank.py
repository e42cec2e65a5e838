"""A rank process as `harness.faults.rank`, on a machine without a GPU: real processes, collectives and comparisons.

The Buffer of a rank plays every exchange whole on the simulator of the planted tree, and gives the rank its own part. A
trial's seed says what goes wrong beside its edits.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch

from afdep import proof
from harness.faults import payload, rank, rank_end
from harness.leaving import leave
from tests.harness.faulty_worlds import SimulatedEnd

GOES_WELL, ONE_FAULTS, ONE_DIES, ONE_HANGS = 3, 4, 5, 6


class Event:
    """An event of a device that is always done, or never."""

    def record(self):
        self.never = Buffer.hangs and bool(Buffer.now.outs)
        if self.never:
            Buffer.now.run()

    def query(self):
        return not self.never


class Buffer:
    """A Buffer of a simulated rank."""

    trial = now = None
    hangs = False

    def __init__(self, group, *, library, **told):
        self.end = SimulatedEnd(self.trial)
        self.world, self.shape = self.end.world, self.end.world.shape
        self.layout, self.rank = self.world.layout, int(os.environ["RANK"])
        self.role = self.layout.role(self.rank)
        self.identity = {"digest": self.trial.control}
        self.sent, self.outs, self.received = payload.sent(self.trial, self.shape), [], []
        Buffer.now = self

    def poison(self, bucket):
        self.world.poison(bucket)

    def source_dispatch(self, x, ids, weights, bucket):
        assert len(x) == len(ids) == len(weights) == bucket

    def source_collect(self, out):
        self.outs.append(out)

    def ffn_receive(self, bucket):
        self.outs.append(None)
        self.received.append(Received(self))
        return self.received[-1]

    def expert_transform(self, received, out):
        assert len(received.x) == len(out)

    def ffn_reply(self, received, out):
        assert received is self.received[-1]

    def synchronize(self):
        if not self.outs:
            return
        if self.rank == 1:
            self._go_wrong()
        self.run()

    def run(self):
        exchanges = [proof.enqueue(self.world, sent, self.trial.shape.tokens) for sent in self.sent]
        outs, self.outs = self.outs, []
        self.world.run()
        for exchange, out in zip(exchanges, outs, strict=True):
            if out is not None:
                y = exchange.collected[self.rank - self.layout.ffn_ranks]
                out.view(torch.int16).copy_(torch.from_numpy(np.ascontiguousarray(y).view(np.int16)))
        self.rows = exchanges[-1].received

    def _go_wrong(self):
        if self.trial.seed == ONE_FAULTS:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self.trial.seed == ONE_DIES:
            os._exit(9)

    def close(self):
        rank._meet()


class Received:
    def __init__(self, buffer):
        self.buffer, self.x = buffer, np.empty((4, 1))


class Faults:
    """The functions of a planted library, of the simulator."""

    def __init__(self, library):
        self.end = Buffer.now.end

    def set(self, late_us):
        assert set(late_us) <= {self.end.trial.place}

    def told(self):
        return self.end.told()


class End(rank_end.RankEnd):
    def __init__(self, trial, *more):
        Buffer.trial = trial
        Buffer.hangs = trial.seed == ONE_HANGS and os.environ["RANK"] == "1"
        super().__init__(trial, *more)


def on_host_of(received):
    return received.buffer.rows[received.buffer.rank]


def without_device(make):
    return lambda *shape, device=None, **kinds: make(*shape, **kinds)


if __name__ == "__main__":
    torch.cuda.set_device = torch.cuda._sleep = lambda value: None
    torch.cuda.synchronize = lambda: None
    torch.cuda.Event = Event
    torch.zeros, torch.empty = without_device(torch.zeros), without_device(torch.empty)
    payload.to_device = torch.from_numpy
    payload.rows_on_gpu = lambda rows: torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    rank_end.Buffer, rank_end._Faults, rank_end.on_host = Buffer, Faults, on_host_of
    rank.RankEnd = End
    leave(rank.main(Path(sys.argv[1]), int(os.environ["RANK"])))
