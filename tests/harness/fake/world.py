"""Becomes afdep/sim/world.py of a fake tree: the World API with arithmetic for a clock and behaviour read from a file."""

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from afdep.arms import Arm
from afdep.digest import native_digest
from afdep.layout import Layout
from harness.core import process

PACKAGE = Path(__file__).resolve().parents[1]
BASE_US = {"m2n": 30.0, "afdep": 20.0}


@dataclass(frozen=True)
class Timing:
    per_rank_us: dict[int, list[float]]
    kernels: tuple[object, ...] = ()


def behaviours():
    """What the file in the package asks for: a list of {arm, tokens, do, word}."""
    path = PACKAGE / "behaviour.json"
    return json.loads(path.read_text()) if path.exists() else []


def tokens_of(load):
    (tokens,) = {len(ids) for ids in load.topk_idx}
    return tokens


class World:
    registered_bytes = 4096
    proved = None  # of the process: proof and timing have a world each

    def __init__(self, layout, *, arm, **shape):
        self.layout, self.arm, self.shape = Layout.parse(layout), Arm.parse(arm), shape

    @property
    def identity(self):
        digest = str(native_digest("sim"))
        reported = {"digest": digest, "protocol": self.arm.protocol, "switches": dict(self.arm.switches)}
        for wish in behaviours():
            if wish["do"] == "report" and wish["arm"] == self.arm.name and "mode" in self.shape:
                reported |= wish["identity"]
        return reported | {"target": "fake", "fiber": "none"}

    def prove_loads(self, loads, bucket, seed):
        self._act("prove", tokens_of(loads[0]))
        World.proved = (tokens_of(loads[0]), bucket)

    def time_exchanges(self, loads, bucket, collect="copy"):
        tokens = tokens_of(loads[0])
        assert self.proved == (tokens, bucket), "a cell is proved before it is timed"
        self._act("time", tokens)
        cell_us = BASE_US[self.arm.protocol] + tokens / 16
        for wish in behaviours():
            if (wish["do"], wish["arm"], wish.get("tokens")) == ("take", self.arm.name, tokens):
                cell_us = wish["us"]
        ranks = range(self.layout.num_ranks)
        return Timing({rank: [cell_us + rank + step / 8 for step in range(len(loads))] for rank in ranks})

    def _act(self, when, tokens):
        for wish in behaviours():
            here = wish.get("layout", str(self.layout)) == str(self.layout)
            if (
                here
                and wish["do"] in ACTIONS
                and (wish["arm"], wish.get("tokens"), wish.get("when", "time")) == (self.arm.name, tokens, when)
            ):
                ACTIONS[wish["do"]](wish)


def complain_and_raise(wish):
    raise RuntimeError(wish.get("word", "it broke"))


def run_out_of_memory(wish):
    raise MemoryError("no memory left")


def wait_for_file(wish):
    """Say so, then wait until the test lets go."""
    Path(wish["arrived"]).touch()
    while not Path(wish["go"]).exists():
        time.sleep(0.01)


def abort_at_the_end(wish):
    """Abort once every trial is said: before the process says that it has ended, or after."""
    say = process.Mouth.say

    def say_and_abort(mouth, event, **fields):
        if event != "ended" or wish["order"] == "after":
            say(mouth, event, **fields)
        if event == "ended":
            os.abort()

    process.Mouth.say = say_and_abort


ACTIONS = {
    "raise": complain_and_raise,
    "memory": run_out_of_memory,
    "exit": lambda wish: os._exit(wish["code"]),
    "kill": lambda wish: os.kill(os.getpid(), signal.SIGKILL),
    "abort": lambda wish: os.abort(),
    "abort late": abort_at_the_end,
    "hang": lambda wish: time.sleep(600),
    "wait": wait_for_file,
}
