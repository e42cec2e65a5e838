"""Becomes harness/device/own.py of a fake tree: real processes that meet in files, without torch or GPU."""

import time
from pathlib import Path

from afdep.digest import native_digest
from afdep.layout import Layout
from afdep.world import ACTIONS, BASE_US, behaviours
from harness.device.endpoint import Measurement
from harness.identity import Identity


def open_end(session, rank):
    return OwnEnd(session, rank)


class OwnEnd:
    registered_bytes = 4096

    def __init__(self, session, rank):
        self.session, self.rank, self.layout = session, rank, Layout.parse(session.row.layout)
        self.role = self.layout.role(rank)
        arm = session.arm.identity
        self.identity = Identity(str(native_digest("cuda")), arm.protocol, arm.switches)
        self.facts = {"device": "NVIDIA H200", "gpus": self.layout.num_ranks}
        for wish in self._wishes("report", None):
            self.identity = Identity(wish.get("digest", self.identity.digest), arm.protocol, arm.switches)
            self.facts |= wish.get("facts", {})

    def prove(self, loads, cell):
        self._act("prove", cell.tokens)
        self._meet(f"proved-{cell.tokens}")

    def time(self, load, cell):
        assert len(load.topk_idx[0]) == cell.tokens
        self._act("time", cell.tokens)
        self._meet(f"timed-{cell.tokens}")
        us = BASE_US[self.session.arm.identity.protocol] + cell.tokens / 16 + self.rank
        (us,) = [wish["us"] for wish in self._wishes("take", cell.tokens)] or [us]
        return Measurement([us + step / 8 for step in range(3)], 20, 1.5, {"cudaLaunchKernelExC": 4.0})

    def close(self):
        self._act("close", None)

    def _wishes(self, do, tokens):
        return [wish for wish in self._mine(tokens) if wish["do"] == do]

    def _act(self, when, tokens):
        for wish in self._mine(tokens):
            if wish.get("when", "time") == when and wish["do"] in ACTIONS:
                ACTIONS[wish["do"]](wish)

    def _mine(self, tokens):
        mine = (self.session.arm.name, tokens, self.rank)
        return [wish for wish in behaviours() if (wish["arm"], wish.get("tokens"), wish.get("rank", self.rank)) == mine]

    def _meet(self, name):
        """Wait for every rank: one that is gone leaves the others waiting."""
        folder = Path.cwd().parent
        (folder / f"{name}-{self.rank}").touch()
        while not all((folder / f"{name}-{rank}").exists() for rank in range(self.layout.num_ranks)):
            time.sleep(0.01)
