"""A screen on recorded expert ids: named by the digest of their file, checked at the edge, replayed step by step."""

import dataclasses
import json

import numpy as np
import pytest

from afdep import RoutingError, Trace, routing
from harness import session as sessions
from harness import simulated
from harness.compose import compose, load_options
from harness.errors import ConfigError
from harness.job import Job
from harness.plan import Cell
from harness.recording import Seat
from harness.validate import screen_config
from tests.harness.samples import plan

SCREEN = ("screen=grid", "tokens=[1,8]", "routing=trace")
STEPS, TOKENS, TOP_K = 3, 16, 8


def configured(*texts):
    return screen_config(compose("screen", texts), load_options("routing"))


@pytest.fixture
def path(tmp_path):
    """A trace of uint8 ids of 128 experts."""
    steps = [routing.make("random", TOKENS, 128, TOP_K, step) for step in range(STEPS)]
    np.save(tmp_path / "ids.npy", np.stack(steps).astype(np.uint8))
    return tmp_path / "ids.npy"


def test_the_row_is_named_by_the_digest_of_the_file(path):
    config = configured(*SCREEN, f"trace={path}")
    assert [row.routing for row in config.rows] == [f"trace@{Trace.load(path, 128).digest}"]
    assert config.trace == path


def test_generated_and_recorded_rows_stand_in_one_screen(path):
    kinds = [
        row.routing.partition("@")[0] for row in configured(*SCREEN[:2], "routing=[random,trace]", f"trace={path}").rows
    ]
    assert kinds == ["random", "trace"]


@pytest.mark.parametrize("texts", [["routing=trace"], ["routing=random", "trace=ids.npy"]], ids=" ".join)
def test_the_routing_and_its_file_belong_together(texts):
    with pytest.raises(ConfigError, match="expected a file for the routing trace alone") as caught:
        configured(*SCREEN[:2], *texts)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens=[17]", "expected 17 tokens a step for each of 1 sources, received 3 steps of 16"),
        ("layout=3A1F", "expected 8 tokens a step for each of 3 sources"),
        ("exchange.top_k=4", "expected top-k 4, received 8"),
        ("screen.experts=64", r"expected ids of 0\.\.63 or -1, received \d+ at step 0, token 0"),
    ],
)
def test_a_trace_that_the_screen_cannot_take_is_refused_in_two_lines(path, text, message):
    with pytest.raises(RoutingError, match=message) as caught:
        configured(*SCREEN, f"trace={path}", text)
    assert len(str(caught.value).splitlines()) == 2


def test_records_hold_the_digest_and_the_plan_no_path(bench, path):
    assert bench.screen("routing=trace", f"trace={path}") == 0
    assert {record.routing for record in bench.records()} == {f"trace@{Trace.load(path, 128).digest}"}
    assert str(path) not in json.dumps(dataclasses.asdict(bench.plan_file.plan))


def test_another_file_is_another_plan(bench, path):
    assert bench.screen("routing=trace", f"trace={path}") == 0
    np.save(path, np.load(path)[::-1].copy())
    assert bench.screen("routing=trace", f"trace={path}") == 0
    assert len(list(bench.out("plans").glob("p*.json"))) == 2


def test_a_file_changed_since_the_plan_voids_its_process(path):
    row = dataclasses.replace(plan().rows[0], routing="trace@i0123456789abcdef")
    own = plan(rows=1)
    planned = dataclasses.replace(own, rows=(row,))
    job = Job("", 0, "", "", 1, 0, str(path))
    session = sessions.Session(job, Seat(planned, planned.processes[0], 1, 0), {}, [])
    assert "trace changed since the plan: i0123456789abcdef planned" in sessions.void_trace(session)


class Listener:
    """A World that only keeps what it is asked to prove and to time."""

    def prove_loads(self, loads, bucket, seed):
        self.proved = loads

    def time_exchanges(self, loads, bucket, collect):
        self.timed = loads


def test_each_exchange_replays_the_next_step_source_by_source(path):
    world, trace = Listener(), Trace.load(path, 128)
    simulated.prove_and_time(plan(), plan().rows[0], lambda: world, Cell(8, 8), trace)
    assert (len(world.proved), len(world.timed)) == (1, 10)
    for exchange, load in enumerate(world.timed):
        step = trace.ids[exchange % STEPS]
        assert np.array_equal(np.concatenate(load.topk_idx), step)
        assert [len(ids) for ids in load.topk_idx] == [8, 8]
