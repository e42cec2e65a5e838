"""Edited trees on the simulator: a World runs the same edits in the place of a rank on a GPU."""

import ctypes
import tempfile
from functools import cache
from pathlib import Path

from afdep import Load, MismatchError, World, proof, routing
from afdep.tree import root
from harness.core import trees
from harness.studies.faults import simulator
from harness.studies.faults.mutants import NUM_PLACES
from harness.studies.faults.rounds import MISMATCH, RoundError


@cache
def library(edits):
    """The simulator of a tree with these edits."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        return simulator.built(trees.copied(root(), Path(folder), edits))


class SimulatedRank:
    """All ranks of a trial at once, as `rounds.run_trial` takes one.

    Args:
        trial: what is run.
        path: the library of its tree on the simulator.
        shape: of the exchanges.
        late_us: of its delay.
    """

    def __init__(self, trial, path, shape, late_us):
        self.trial, self.shape, self.exchanges = trial, shape, shape.exchanges
        self._native = ctypes.CDLL(str(path))
        self._native.afdep_sim_faults_told.restype = ctypes.POINTER(ctypes.c_uint32)
        self.world = World(trial.layout, **shape.fields, arm=trial.arm, machine="h200-nvlink", library=path)
        last = self.world.layout.num_ranks - 1
        by_rank = [trial.late_places(rank, last + 1) for rank in range(last + 1)]
        late = [late_us if place in by_rank[0] + by_rank[last] else 0 for place in range(NUM_PLACES)]
        rank = -1 if by_rank[0] == by_rank[last] else by_rank.index(max(by_rank))
        self._native.afdep_sim_faults_set((ctypes.c_uint32 * NUM_PLACES)(*late), rank)

    @property
    def digest(self):
        return str(self.world.identity["digest"])

    def marks(self):
        words = self._native.afdep_sim_faults_told()
        return tuple(place for place in range(NUM_PLACES) if words[place])

    def run_round(self, number):
        try:
            proof.prove(self.world, self._loads(), self.shape.tokens, number)
        except MismatchError as error:
            raise RoundError(MISMATCH, str(error)) from error
        return self.exchanges

    def close(self):
        """Nothing outlives its World."""

    def _loads(self):
        sources = range(self.world.layout.attention_ranks)
        return [Load([self._ids(one * 64 + source) for source in sources]) for one in range(self.shape.exchanges)]

    def _ids(self, seed):
        return routing.make("random", self.shape.tokens, self.shape.num_experts, self.shape.top_k, seed)


def alone(ended):
    """The agreement of a rank that stands for all."""
    return [ended]
