"""Ranks of injected faults without a GPU, in the place of `harness/ranks/device.py`: real processes and collectives.

The Buffer of a rank runs every exchange whole on the simulator of the edited tree, and gives the rank its own part. The
delay of a trial says what goes wrong on rank 1 beside its edits.
"""

import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from afdep import proof
from afdep.cuda import agreement
from afdep.device_errors import WaitTimeoutError
from harness.core.worker import Session
from harness.ranks import contract, proving
from harness.ranks.group import Group
from harness.studies.faults import device
from tests.studies.faulty_worlds import SimulatedRank

FAULTS, HANGS, DIES, TIMES_OUT = "receiver", "counts", "arrival", "prefix sums"
"""What is late in a trial in which that happens."""


def make(session: Session) -> Group:
    torch.cuda.set_device = torch.cuda._sleep = lambda value: None
    torch.cuda.synchronize = lambda: None
    torch.cuda.Event = Event
    torch.zeros, torch.empty = without_device(torch.zeros), without_device(torch.empty)
    contract.on_gpus().memory.to_device = torch.from_numpy
    contract.on_gpus().cuda.on_host = lambda received: received.buffer.rows[received.buffer.rank]
    proving.rows_on_gpu = lambda rows: torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    device._Faults = Faults
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    return FakeGroup(session)


class FakeGroup(Group):
    def __init__(self, session):
        super().__init__(session)
        session.opened(device="NVIDIA H200", gpu=session.job.gpus[session.rank])
        self.trials = iter(session.batch.trials)

    def buffer(self, edits, **fields):
        Buffer.now = Buffer(next(self.trials), Path(self.built(edits).path), self)
        return Buffer.now


class Event:
    """An event of a device that is always done, or never."""

    def record(self):
        self.never = Buffer.now.goes(HANGS) and bool(Buffer.now.outs)
        if self.never:
            Buffer.now.run()

    def query(self):
        return not self.never


class Buffer:
    """A Buffer of a simulated rank."""

    now = None

    def __init__(self, trial, library, group):
        settings = group.settings
        self.simulated = SimulatedRank(trial, library, trial.shape(settings.shape), settings.late_us)
        self.world, self.shape = self.simulated.world, self.simulated.world.shape
        self.layout, self.rank = self.world.layout, int(os.environ["RANK"])
        self.role = self.layout.role(self.rank)
        self.identity = {"digest": self.simulated.digest}
        self.sent, self.outs, self.received = None, [], []
        self.sent = device._drawn(self, self.simulated.shape, settings.seed)[0]

    def goes(self, wrong):
        return self.simulated.trial.late == wrong and self.rank == 1 and self.simulated.trial.expects == "caught"

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
        if self.goes(FAULTS):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self.goes(DIES):
            os._exit(9)
        self.run()
        if self.goes(TIMES_OUT):
            raise WaitTimeoutError(1, "dispatch counts", [0], 1, 0)

    def run(self):
        exchanges = [proof.enqueue(self.world, sent, self.simulated.shape.tokens) for sent in self.sent]
        outs, self.outs = self.outs, []
        self.world.run()
        for exchange, out in zip(exchanges, outs, strict=True):
            if out is not None:
                y = exchange.collected[self.rank - self.layout.ffn_ranks]
                out.view(torch.int16).copy_(torch.from_numpy(np.ascontiguousarray(y).view(np.int16)))
        self.rows = exchanges[-1].received

    def close(self):
        agreement.gathered(None, "exact")


class Received:
    def __init__(self, buffer):
        self.buffer, self.x = buffer, np.empty((4, 1))


class Faults:
    """The functions of an edited library, of the simulator."""

    def __init__(self, library, late_us):
        self.rank = Buffer.now.simulated
        assert set(late_us) <= {self.rank.trial.delay.place if self.rank.trial.delay else None}

    def marks(self):
        return self.rank.marks()


def without_device(make_tensor):
    return lambda *shape, device=None, **kinds: make_tensor(*shape, **kinds)
