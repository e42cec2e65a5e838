"""Token counts in a word that the kernels read: rows past it go nowhere and come back as zeros."""

import numpy as np
import pytest

from afdep import ShapeError, TokenCountAssertion, World, reference
from afdep.proof import checks
from afdep.reference import BF16, Sent
from tests.sim.exchanges import ARMS, make_routes, make_world

CAPACITY = 16
COUNTS = [(4, 4), (7, 1), (8, 0), (0, 8), (16, 16), (0, 0)]

by_arm = pytest.mark.parametrize("arm", ARMS)


class Counted:
    """An exchange of full inputs whose token counts lie in words of the sources' memory."""

    def __init__(self, world: World, kind: str = "random"):
        self.world = world
        ids = make_routes(world, [CAPACITY] * len(world.sources), kind)
        self.sent = [Sent(reference.payload(CAPACITY, world.shape.hidden, seed), one) for seed, one in enumerate(ids)]
        self.words = [world.empty(source.rank, (1,), np.int32) for source in world.sources]
        self.x = [self._kept(rank, one.x) for rank, one in zip(world.sources, self.sent, strict=True)]
        self.ids = [self._kept(rank, one.topk_idx) for rank, one in zip(world.sources, self.sent, strict=True)]

    def _kept(self, source, values):
        memory = self.world.empty(source.rank, values.shape, values.dtype)
        memory[...] = values
        return memory

    def dispatch(self):
        for source, x, ids, word in zip(self.world.sources, self.x, self.ids, self.words, strict=True):
            source.source_dispatch(x, ids, num_tokens=word)
        return [ffn.ffn_receive() for ffn in self.world.ffns]

    def enqueue(self) -> None:
        for ffn, received in zip(self.world.ffns, self.dispatch(), strict=True):
            ffn.ffn_reply(received, self.world.expert_transform(ffn.rank))
        self.y = [source.source_collect() for source in self.world.sources]

    def set(self, counts) -> None:
        for word, count in zip(self.words, counts, strict=True):
            word[0] = count

    def check(self, counts) -> None:
        ranks, experts = self.world.layout.ffn_ranks, self.world.shape.num_experts
        for source, sent, y, count in zip(self.world.sources, self.sent, self.y, counts, strict=True):
            expected = reference.combine(
                sent.x, sent.topk_idx, num_ffn_ranks=ranks, num_experts=experts, num_tokens=count
            )
            checks.check_collected(y, expected, rank=source.rank)


@by_arm
@pytest.mark.parametrize("layout", ["2A1F", "2A2F", "2A3F"])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_as_many_tokens_are_exchanged_as_the_words_say(layout, arm, counts):
    counted = Counted(make_world(layout, arm=arm))
    counted.set(counts)
    counted.world.poison(CAPACITY)
    counted.enqueue()
    counted.world.run()
    counted.check(counts)


@by_arm
def test_an_ffn_rank_receives_the_tokens_that_count_and_no_other(arm):
    counted = Counted(make_world("2A1F", arm=arm))
    counted.set((7, 1))
    received = counted.dispatch()
    counted.world.run()
    sent = [Sent(one.x[:count], one.topk_idx[:count]) for one, count in zip(counted.sent, (7, 1), strict=True)]
    checks.check_received(received[0], sent, rank=0, num_ffn_ranks=1, num_experts=6)


@by_arm
@pytest.mark.parametrize("mode", ["check", "hunt"])
def test_a_graph_follows_words_that_change_between_replays(arm, mode):
    counted = Counted(make_world("2A1F", arm=arm, mode=mode))
    counted.set((4, 4))
    with counted.world.capture() as graph:
        counted.enqueue()
    for counts in COUNTS * 2:
        counted.set(counts)
        counted.world.poison(CAPACITY)
        graph.replay()
        counted.world.run()
        counted.check(counts)


@by_arm
@pytest.mark.parametrize("count", [CAPACITY + 1, -1, 2**31 - 1, -(2**31)])
def test_a_word_beyond_its_rows_is_named_and_every_rank_is_told(arm, count):
    counted = Counted(make_world("2A2F", arm=arm))
    counted.set((4, count))
    counted.enqueue()
    with pytest.raises(TokenCountAssertion) as error:
        counted.world.run()
    assert (error.value.rank, error.value.most, error.value.received) == (3, CAPACITY, count)
    assert counted.world.informed_ranks == [0, 1, 2, 3]
    assert all(np.isnan(y.astype(np.float32)).all() for y in counted.y)


def test_a_word_counts_the_bucket_at_most():
    world = make_world("1A1F")
    word = world.empty(1, (1,), np.int32)
    word[0] = 9
    world.sources[0].source_dispatch(np.zeros((CAPACITY, 64), BF16), np.zeros((CAPACITY, 4), int) - 1, None, 8, word)
    world.ffns[0].ffn_receive(8)
    with pytest.raises(TokenCountAssertion, match=r"expected num_tokens 0\.\.8, received 9"):
        world.run()


@pytest.mark.parametrize(
    "word", [np.zeros(2, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32)], ids=["two", "int64", "none"]
)
def test_a_word_of_another_shape_or_type_is_refused(word):
    x, ids = np.zeros((2, 64), BF16), np.zeros((2, 4), np.int64) - 1
    with pytest.raises(ShapeError, match="num_tokens: expected an integer, or int32 of one element"):
        make_world().sources[0].source_dispatch(x, ids, num_tokens=word)


def test_a_word_of_the_host_is_read_as_it_was_when_the_call_was_made():
    counted = Counted(make_world("1A1F"))
    word = np.array([5], np.int32)
    counted.words = [word]
    counted.enqueue()
    word[0] = 12
    counted.world.run()
    counted.check([5])


@by_arm
def test_no_word_costs_no_time(arm):
    """The kernels ask for the word only where there is one: an int takes the same time as x of so many rows."""
    times = [_end_of_exchange(arm, rows, num_tokens) for rows, num_tokens in ((CAPACITY, 5), (5, None))]
    assert times[0] == times[1]


def _end_of_exchange(arm, rows, num_tokens) -> float:
    world = make_world("1A1F", arm=arm)
    ids = make_routes(world, [CAPACITY])[0][:rows]
    world.sources[0].source_dispatch(np.zeros((rows, 64), BF16), ids, num_tokens=num_tokens)
    received = world.ffns[0].ffn_receive()
    world.ffns[0].ffn_reply(received, received.x)
    world.sources[0].source_collect()
    world.run()
    return max(kernel.end_us for kernel in world.simulator.take_trace())
