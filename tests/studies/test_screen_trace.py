"""A screen on recorded expert ids: named by the digest of their file, checked at the edge, replayed step by step."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from afdep import RoutingError, Trace, routing
from harness.core.codec import encode
from harness.desk import run
from harness.errors import ConfigError
from harness.ranks import exchanges
from harness.ranks.exchanges import Cell
from harness.ranks.group import Group, Measurement
from harness.study import VoidError
from tests.harness.samples import BACKEND, EXCHANGE, ROW
from tests.studies.test_screen_settings import wanted

SCREEN = ("screen=grid", "tokens=[1,8]", "routing=trace")
STEPS, TOKENS, TOP_K = 3, 16, 8


@pytest.fixture
def path(tmp_path):
    """A trace of uint8 ids of 128 experts."""
    steps = [routing.make("random", TOKENS, 128, TOP_K, step) for step in range(STEPS)]
    np.save(tmp_path / "ids.npy", np.stack(steps).astype(np.uint8))
    return tmp_path / "ids.npy"


def test_the_row_is_named_by_the_digest_of_the_file(path):
    found = wanted(*SCREEN, f"trace={path}")
    assert [row.routing for row in found.settings.rows] == [f"trace@{Trace.load(path, 128).digest}"]
    assert found.trace == path


def test_generated_and_recorded_rows_stand_in_one_screen(path):
    rows = wanted(*SCREEN[:2], "routing=[random,trace]", f"trace={path}").settings.rows
    assert [row.routing.partition("@")[0] for row in rows] == ["random", "trace"]


@pytest.mark.parametrize("texts", [["routing=trace"], ["routing=random", "trace=ids.npy"]], ids=" ".join)
def test_the_routing_and_its_file_belong_together(texts):
    with pytest.raises(ConfigError, match="expected a file for the routing trace alone") as caught:
        wanted(*SCREEN[:2], *texts)
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
        wanted(*SCREEN, f"trace={path}", text)
    assert len(str(caught.value).splitlines()) == 2


def test_records_hold_the_digest_and_the_plan_no_path_and_another_file_is_another_plan(bench, path):
    assert bench.screen("tokens=[1]", "routing=trace", f"trace={path}") == 0
    assert {record.routing for record in bench.records()} == {f"trace@{Trace.load(path, 128).digest}"}
    assert str(path) not in json.dumps(encode(bench.plan_file.plan))
    np.save(path, np.load(path)[::-1].copy())
    run.plan("screen", ["tokens=[1]", *SCREEN, f"trace={path}"], bench.desk)
    assert len(list(bench.out("plans").glob("p*.json"))) == 2


def group_of(path) -> Group:
    group = Group.__new__(Group)
    group.session = SimpleNamespace(job=SimpleNamespace(trace=str(path)))
    return group


def test_a_file_changed_since_the_plan_voids_its_process(path):
    row = dataclasses.replace(ROW, routing="trace@i0123456789abcdef")
    with pytest.raises(VoidError, match="trace changed since the plan: i0123456789abcdef planned, i"):
        group_of(path).trace(row)
    found = Trace.load(path, 128)
    assert group_of(path).trace(dataclasses.replace(ROW, routing=f"trace@{found.digest}")).digest == found.digest
    assert group_of(path).trace(ROW) is None


class Listener:
    """An endpoint that only keeps what it is asked to prove and to time."""

    loads = 10

    def prove(self, loads, bucket):
        self.proved = loads

    def time(self, loads, bucket):
        self.timed = loads
        return Measurement({0: [1.0]})


def test_each_exchange_replays_the_next_step_source_by_source(path):
    end, trace = Listener(), Trace.load(path, 128)
    group = SimpleNamespace(open=lambda what: end, trace=lambda row: trace, turn=lambda: None)
    row = dataclasses.replace(ROW, layout="2A2F", routing=f"trace@{trace.digest}")
    list(exchanges.run([Cell("m2n", row, EXCHANGE, BACKEND, 8)], group))
    assert (len(end.proved), len(end.timed)) == (1, 10)
    for exchange, load in enumerate(end.timed):
        step = trace.ids[exchange % STEPS]
        assert np.array_equal(np.concatenate(load.topk_idx), step)
        assert [len(ids) for ids in load.topk_idx] == [8, 8]
