"""What two H200s measured of 1A1F: how near the baseline is to upstream, how fast `afdep` is, what records hold."""

import json
from statistics import mean, median

import pytest

from harness import arms, pages, upstream
from harness.workspace import REPOSITORY, Workspace

MOST_PCT = 10.0
TOKENS = (1, 8, 32, 128, 512, 2048)

SERIES = {
    ("host", 24, 2048, "bf16"): (2048,),
    ("host", 24, 2048, "fp8"): (),
    ("host", 64, 2048, "bf16"): (),
    ("host", 24, 4096, "bf16"): (1, 8, 32, 128, 2048),
    ("host", 24, 4096, "fp8"): TOKENS,
    ("device", 24, 2048, "bf16"): (2048,),
    ("device", 24, 4096, "bf16"): TOKENS,
}
"""Where replays meet, transport SMs, hidden and dtype of all that upstream has figures of; and the tokens at which
`m2n` is faster than it by more than MOST_PCT."""

SLOWER = {("host", 24, 2048, "fp8"): (1,)}
"""The same where `m2n` takes more: of two pairs, 35.4 and 37.0 us, one is within MOST_PCT and one beyond."""

AFDEP_US = {1: 19, 8: 21, 32: 22, 128: 26, 512: 40, 2048: 124}
"""The most that `afdep` may take, with 24 SMs, hidden 2,048 and BF16, each replay behind a barrier of the hosts."""


@pytest.fixture(scope="module")
def parts():
    return pages.parts_of(Workspace(REPOSITORY / "records" / "h200"))


@pytest.fixture(scope="module")
def changes(parts):
    """How much more `m2n` takes than upstream in the mean of its runs, in percent, by series and tokens."""
    figures, found = upstream.load(), {}
    for part in parts:
        if part.plan.exchange.mode != "graph":
            continue
        for index, row in enumerate(part.plan.rows):
            for cell in part.plan.cells:
                runs = figures.get((upstream.ARM, upstream.place(row, cell.tokens, sms_of(part))))
                if runs:
                    own = median(part.found.repeats_us(index, cell.tokens, arm_of(part, "m2n")))
                    found.setdefault(series_of(part, row), {})[cell.tokens] = 100 * (own / mean(runs) - 1)
    return found


def sms_of(part):
    return part.plan.exchange.transport_sms


def series_of(part, row):
    return (part.plan.backend.device.rendezvous, sms_of(part), row.hidden, row.dtype)


def arm_of(part, name):
    return [arm.name for arm in part.plan.arms].index(name)


def beyond(changes):
    """Tokens at which it takes less, and at which it takes more, by more than MOST_PCT."""
    less = tuple(tokens for tokens, pct in changes.items() if pct < -MOST_PCT)
    return less, tuple(tokens for tokens, pct in changes.items() if pct > MOST_PCT)


def test_every_published_figure_of_upstream_stands_beside_a_measured_one(changes):
    assert set(changes) == set(SERIES)
    assert all(tuple(one) == TOKENS for one in changes.values())
    places = {place for arm, place in upstream.load() if arm == upstream.ARM}
    assert len(places) == sum(len(one) for (meets, *_), one in changes.items() if meets == "host")


@pytest.mark.parametrize("series", SERIES, ids=lambda one: "-".join(map(str, one)))
def test_m2n_is_within_ten_percent_of_upstream_but_in_the_listed_cells_alone(changes, series):
    assert beyond(changes[series]) == (SERIES[series], SLOWER.get(series, ()))


def test_a_cell_that_leaves_its_bounds_or_comes_back_is_noticed(changes):
    series = ("host", 24, 2048, "bf16")
    for tokens, pct in ((8, 10.1), (8, -10.1), (2048, -9.9), (2048, 10.1)):
        assert beyond(changes[series] | {tokens: pct}) != (SERIES[series], ())


def test_afdep_takes_no_more_than_was_asked_for(parts):
    (part,) = [one for one in parts if one.plan.backend.pairs == 4]
    assert [(series_of(part, row), row.routing) for row in part.plan.rows] == [(("host", 24, 2048, "bf16"), "random")]
    us = {tokens: median(part.found.repeats_us(0, tokens, arm_of(part, "afdep"))) for tokens in TOKENS}
    assert {tokens: us[tokens] for tokens in TOKENS if us[tokens] > AFDEP_US[tokens]} == {}


def test_every_planned_cell_has_all_its_pairs_four_of_the_first_row_and_two_of_the_others(parts):
    for part in parts:
        is_first = {"afdep@bd4db4da", "nccl"} < {arm.name for arm in part.plan.arms}
        assert part.plan.backend.pairs == (4 if is_first else 2)
        assert part.found.absences == ()
        assert part.reading.quarantined == ()
    assert sum(part.plan.backend.pairs == 4 for part in parts) == 1


def records_of(parts):
    return [record for part in parts for record in part.reading.records]


def test_every_process_proved_its_exchanges_before_it_timed_them(parts):
    for record in records_of(parts):
        assert record.status == "ok"
        assert record.proofs_passed == record.proof_exchanges >= 3
        assert len(record.samples_us) == 12


def test_every_loaded_library_is_the_planned_one_and_all_our_own_are_of_one_digest(parts):
    own = [record for record in records_of(parts) if not arms.is_external(record.arm)]
    assert all(record.loaded_digest == record.native_digest for record in own)
    assert len({record.native_digest for record in own}) == 1
    external = {record.loaded_digest for record in records_of(parts) if arms.is_external(record.arm)}
    assert len(external) == 1


def test_every_eager_record_has_the_calls_of_the_host_that_it_names_and_no_graph_has(parts):
    eager = [record for record in records_of(parts) if record.mode == "eager"]
    assert {record.arm for record in eager} == {"m2n", "afdep"}
    for record in eager:
        calls = json.loads(record.observed)["calls"]
        assert record.host_calls == sum(calls.values())
        assert calls["cudaLaunchKernelExC"] >= 2
    assert {record.host_calls for record in records_of(parts) if record.mode == "graph"} == {None}


def test_every_record_is_of_two_h200s_with_a_gpu_for_each_rank(parts):
    for record in records_of(parts):
        facts = json.loads(record.observed)
        assert (facts["device"], facts["gpus"], facts["gpu"]) == ("NVIDIA H200", 2, record.rank)
        assert record.ranks_per_gpu == 1
