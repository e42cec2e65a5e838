"""Planted trees on the simulator: a World runs the same edits in place of `harness.faults.rank_end`."""

import ctypes
import tempfile
from functools import cache
from pathlib import Path

from afdep import Load, MismatchError, World, proof, routing
from afdep.build import build
from harness.faults import trees
from harness.faults.guards import GUARDS
from harness.faults.part import RoundMismatchError
from harness.faults.trials import NUM_PLACES

GUARD_OF = {guard.slug: guard for guard in GUARDS}


@cache
def library(name: str) -> Path:
    """The simulator of the tree that the library of that name is built from."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        return build(tree=trees.tree(GUARD_OF.get(name), Path(folder)), flags=("-O1",))


class SimulatedEnd:
    """All ranks of a trial at once, as `harness.faults.part.End` says of one."""

    def __init__(self, trial):
        path = library(trial.library)
        self.trial = trial
        self._native = ctypes.CDLL(str(path))
        self._native.afdep_sim_faults_told.restype = ctypes.POINTER(ctypes.c_uint32)
        self.world = World(**trial.world_fields(), arm=trial.arm, machine="h200-nvlink", library=path)
        last = self.world.layout.num_ranks - 1
        late = [trial.late_us if place == trial.place else 0 for place in range(NUM_PLACES)]
        rank = {"first": 0, "last": last}.get(trial.late_rank, -1)
        self._native.afdep_sim_faults_set((ctypes.c_uint32 * NUM_PLACES)(*late), rank)

    @property
    def digest(self):
        return str(self.world.identity["digest"])

    def told(self):
        words = self._native.afdep_sim_faults_told()
        return tuple(place for place in range(NUM_PLACES) if words[place])

    def play_round(self, number):
        try:
            proof.prove(self.world, self._loads(), self.trial.shape.tokens, number)
        except MismatchError as error:
            raise RoundMismatchError(0, str(error)) from error
        return self.trial.shape.exchanges

    def _loads(self):
        shape, sources = self.trial.shape, range(self.world.layout.attention_ranks)
        seeds = range(shape.exchanges)
        return [Load([self._ids(seed * 64 + source) for source in sources]) for seed in seeds]

    def _ids(self, seed):
        shape = self.trial.shape
        return routing.make("random", shape.tokens, shape.num_experts, shape.top_k, seed)


def alone(ended):
    """The agreement of a rank that stands for all."""
    return [ended]
