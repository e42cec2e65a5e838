"""A rank process as `harness.validation.rank`, on a machine without a GPU: real processes and collectives.

Each rank plays the exchanges whole, on the simulator, and takes its own part. A trial's seed says what goes wrong.
"""

import os
import sys
import time
from pathlib import Path

import torch

from afdep.device_errors import DeviceError
from afdep.errors import MismatchError
from harness.leaving import leave
from harness.validation import rank
from harness.validation.meeting import Meeting
from tests.harness.ranks_of_a_world import RankOfAWorld

GOES_WELL, ONE_FINDS_A_BIT, ONE_DIES, ONE_HANGS, ONE_CANNOT_GIVE_BACK, ALL_REFUSE, ONE_RAISES = range(7)


class Buffer:
    def __init__(self, identity):
        self.identity = identity


class SimulatedRankEnd(RankOfAWorld):
    def __init__(self, trial, arm, group):
        if trial.seed == ALL_REFUSE:
            raise MismatchError("construction", "a group", "none", 0)
        super().__init__(trial, int(os.environ["RANK"]))
        self.trial, self.arm, self.played = trial, arm, 0
        self.meet, self.buffer = Meeting(group).meet, Buffer(self.world.identity)

    def play(self, turn):
        self.meet()
        self.played += 1
        if self.rank == 1 and self.played == 2:
            self._go_wrong()
        return super().play(turn)

    def play_free(self, turns):
        self.meet()
        return super().play_free(turns)

    def close(self):
        if self.trial.seed == ONE_CANNOT_GIVE_BACK and self.rank == 1:
            raise DeviceError("an illegal memory access was encountered")

    def _go_wrong(self):
        seed = self.trial.seed
        if seed == ONE_FINDS_A_BIT:
            raise MismatchError("collected row", "0x1", "0x0", 1)
        if seed == ONE_RAISES:
            raise ZeroDivisionError("of the harness itself")
        if seed == ONE_DIES:
            os._exit(9)
        if seed == ONE_HANGS:
            time.sleep(60)


if __name__ == "__main__":
    torch.cuda.set_device = lambda gpu: None
    zeros = torch.zeros
    torch.zeros = lambda *shape, device=None, **kinds: zeros(*shape, **kinds)
    rank.RankEnd, rank._TRIAL_LIMIT_S = SimulatedRankEnd, 8.0
    leave(rank.main(Path(sys.argv[1]), int(os.environ["RANK"])))
