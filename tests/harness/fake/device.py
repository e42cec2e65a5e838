"""Becomes harness/ranks/device.py of a fake tree: real processes that meet in files, without torch or GPU."""

import time
from pathlib import Path

from afdep.arms import Arm
from afdep.digest import native_digest
from afdep.layout import Layout
from afdep.sim.world import ACTIONS, BASE_US, behaviours
from harness.core.identity import Identity
from harness.ranks import external
from harness.ranks.group import Group, Measurement
from harness.study import VoidError


def make(session):
    return DeviceGroup(session)


class DeviceGroup(Group):
    def __init__(self, session):
        super().__init__(session)
        self.facts = {"device": "NVIDIA H200", "gpu": session.job.gpus[self.rank], "gpus": 1 + max(session.job.gpus)}
        self.facts["gpu_uuid"] = f"GPU-{self.facts['gpu']}"
        session.opened(**self.facts)

    def open(self, what):
        if what.arm == "deepep":
            return external.open_deepep(self, what)
        end = OwnEnd(self, what)
        facts = self.facts | end.facts
        if what.backend.machine.partition("-")[0].upper() not in facts["device"].upper():
            raise VoidError(f"machine: the plan expects {what.backend.machine}, this rank runs on {facts['device']}")
        return self._opened(what.arm, end)


class OwnEnd:
    registered_bytes, loads = 4096, 1

    def __init__(self, group, what):
        self.arm, self.rank, self.layout = Arm.parse(what.arm), group.rank, Layout.parse(what.row.layout)
        self.pair = group.session.batch.pair
        self.roles = {self.rank: str(self.layout.role(self.rank))}
        reported = {"digest": str(native_digest("cuda")), "protocol": self.arm.protocol, "switches": self.arm.switches}
        self.facts = {}
        for wish in self._wishes("report", None):
            reported |= {"digest": wish.get("digest", reported["digest"])}
            self.facts |= wish.get("facts", {})
        self.identity = Identity.from_report(reported)

    def prove(self, loads, bucket):
        tokens = len(loads[0].topk_idx[0])
        self._act("prove", tokens)
        self._meet(f"proved-{tokens}")

    def time(self, loads, bucket):
        tokens = len(loads[0].topk_idx[0])
        self._act("time", tokens)
        self._meet(f"timed-{tokens}")
        us = BASE_US[self.arm.protocol] + tokens / 16 + self.rank
        (us,) = [wish["us"] for wish in self._wishes("take", tokens)] or [us]
        return Measurement({self.rank: [us + step / 8 for step in range(3)]}, 20, 1.5, {"cudaLaunchKernelExC": 4.0})

    def close(self):
        self._act("close", None)

    def _wishes(self, do, tokens):
        return [wish for wish in self._mine(tokens) if wish["do"] == do]

    def _act(self, when, tokens):
        for wish in self._mine(tokens):
            if wish.get("when", "time") == when and wish["do"] in ACTIONS:
                ACTIONS[wish["do"]](wish)

    def _mine(self, tokens):
        mine = {"arm": self.arm.name, "tokens": tokens, "rank": self.rank, "pair": self.pair}
        usual = {**mine, "tokens": None}
        return [wish for wish in behaviours() if all(wish.get(name, usual[name]) == mine[name] for name in mine)]

    def _meet(self, name):
        """Wait for every rank: one that is gone leaves the others waiting."""
        folder = Path.cwd().parent
        (folder / f"{name}-{self.rank}").touch()
        while not all((folder / f"{name}-{rank}").exists() for rank in range(self.layout.num_ranks)):
            time.sleep(0.01)
