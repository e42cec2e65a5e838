"""One rank's end of a trial, cut out of a World of all ranks on the simulator."""

from harness.validation.simulated import open_end


class RankOfAWorld:
    """Gives what the simulator gave this rank, as far as `harness.validation.part.RankEnd` says; it meets nobody."""

    def __init__(self, trial, rank):
        self.world = open_end(trial)
        self.rank, self.shape = rank, self.world.shape
        self.counted = 0

    @property
    def late(self):
        return self.world.late

    @property
    def replays(self):
        return self.world.replays

    def play(self, turn):
        return self.own(self.world.play(turn))

    def play_free(self, turns):
        return [self.own(one) for one in self.world.play_free(turns)]

    def poisoned_result(self):
        return self.world.poisoned_results()

    def own(self, delivered):
        """This rank's part of what an exchange delivered."""
        ffns = self.shape.layout.ffn_ranks
        if self.rank >= ffns:
            return delivered.collected[self.rank - ffns]
        return delivered.received[self.rank] if delivered.received else None
