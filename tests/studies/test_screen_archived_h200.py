"""What two H200s measured of 1A1F: how near the baseline is to upstream, how fast `afdep` is, what records hold."""

import json
from statistics import mean, median

import pytest

from harness.desk import report as pages
from harness.report.published import UPSTREAM_ARM, Point, upstream
from harness.studies.screen import plots, report
from harness.studies.screen.settings import EXTERNAL
from tests.studies.archived import DESK, found, results

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
def plans():
    return found("h200")


@pytest.fixture(scope="module")
def changes(plans):
    """How much more `m2n` takes than upstream in the mean of its runs, in percent, by series and tokens."""
    figures, held = upstream(), {}
    for one in plans:
        if one.settings.exchange.mode != "graph":
            continue
        for index, row in enumerate(one.settings.rows):
            for tokens in one.settings.tokens:
                runs = figures.get((UPSTREAM_ARM, Point.of(row, tokens), sms_of(one)))
                if runs:
                    own = median(one.findings.repeats_us(index, tokens, arm_of(one, "m2n")))
                    held.setdefault(series_of(one, row), {})[tokens] = 100 * (own / mean(runs) - 1)
    return held


def sms_of(one):
    return one.settings.exchange.transport_sms


def series_of(one, row):
    return (one.settings.backend.device.rendezvous, sms_of(one), row.hidden, row.dtype)


def arm_of(one, name):
    return [arm.name for arm in one.settings.arms].index(name)


def beyond(changes):
    """Tokens at which it takes less, and at which it takes more, by more than MOST_PCT."""
    less = tuple(tokens for tokens, pct in changes.items() if pct < -MOST_PCT)
    return less, tuple(tokens for tokens, pct in changes.items() if pct > MOST_PCT)


def test_every_published_figure_of_upstream_stands_beside_a_measured_one(changes):
    assert set(changes) == set(SERIES)
    assert all(tuple(one) == TOKENS for one in changes.values())
    places = [place for place in upstream() if place[0] == UPSTREAM_ARM]
    assert len(places) == sum(len(one) for (meets, *_), one in changes.items() if meets == "host")


@pytest.mark.parametrize("series", SERIES, ids=lambda one: "-".join(map(str, one)))
def test_m2n_is_within_ten_percent_of_upstream_but_in_the_listed_cells_alone(changes, series):
    assert beyond(changes[series]) == (SERIES[series], SLOWER.get(series, ()))


def test_a_cell_that_leaves_its_bounds_or_comes_back_is_noticed(changes):
    series = ("host", 24, 2048, "bf16")
    for tokens, pct in ((8, 10.1), (8, -10.1), (2048, -9.9), (2048, 10.1)):
        assert beyond(changes[series] | {tokens: pct}) != (SERIES[series], ())


def test_afdep_takes_no_more_than_was_asked_for(plans):
    (one,) = [one for one in plans if one.settings.backend.pairs == 4]
    rows = [(series_of(one, row), row.routing) for row in one.settings.rows]
    assert rows == [(("host", 24, 2048, "bf16"), "random")]
    us = {tokens: median(one.findings.repeats_us(0, tokens, arm_of(one, "afdep"))) for tokens in TOKENS}
    assert {tokens: us[tokens] for tokens in TOKENS if us[tokens] > AFDEP_US[tokens]} == {}


def test_every_planned_cell_has_all_its_pairs_four_of_the_first_row_and_two_of_the_others(plans):
    for one in plans:
        is_first = {"afdep@bd4db4da", "nccl"} < {arm.name for arm in one.settings.arms}
        assert one.settings.backend.pairs == (4 if is_first else 2)
        assert one.findings.absences == one.findings.lost == ()
        assert one.part.reading.quarantined == ()
    assert sum(one.settings.backend.pairs == 4 for one in plans) == 1


def records_of(plans):
    return [record for one in plans for record in one.records]


def test_every_process_proved_its_exchanges_before_it_timed_them(plans):
    assert records_of(plans)
    for record in records_of(plans):
        assert record.status == "ok"
        assert record.proofs_passed == record.proof_exchanges >= 3
        assert len(record.samples_us) == 12


def test_every_loaded_library_is_the_planned_one_and_all_our_own_are_of_one_digest(plans):
    own = [record for record in records_of(plans) if record.arm not in EXTERNAL]
    assert all(record.loaded_digest == record.native_digest for record in own)
    assert len({record.native_digest for record in own}) == 1
    external = {record.loaded_digest for record in records_of(plans) if record.arm in EXTERNAL}
    assert len(external) == 1


def test_every_eager_record_has_the_calls_of_the_host_that_it_names_and_no_graph_has(plans):
    eager = [record for record in records_of(plans) if record.mode == "eager"]
    assert {record.arm for record in eager} == {"m2n", "afdep"}
    for record in eager:
        calls = json.loads(record.observed)["calls"]
        assert record.host_calls == sum(calls.values())
        assert calls["cudaLaunchKernelExC"] >= 2
    assert {record.host_calls for record in records_of(plans) if record.mode == "graph"} == {None}


def test_every_record_is_of_two_h200s_with_a_gpu_for_each_rank(plans):
    for record in records_of(plans):
        facts = json.loads(record.observed)
        assert (facts["device"], facts["gpus"], facts["gpu"]) == ("NVIDIA H200", 2, record.rank)
        assert record.ranks_per_gpu == 1


@pytest.mark.parametrize("folder", ["h200", "h200-colocated"])
def test_a_page_and_its_plot_are_those_of_its_records_to_the_last_byte(tmp_path, folder):
    drawn = report.draw(results(folder), tmp_path, folder)
    pictures = [(path.name, words) for path, words in drawn]
    kept = DESK.root / "reports" / "screen"
    assert (kept / f"{folder}.md").read_text("utf-8") == report.text(results(folder), pictures)
    assert drawn
    assert all(path.read_bytes() == (kept / path.name).read_bytes() for path, _ in drawn)


def test_the_block_of_readme_is_that_of_its_records():
    page = (DESK.root / "README.md").read_text("utf-8")
    assert pages.replace_block("README.md", page, report.block(results("h200"))) == page


def test_graph_replays_stand_ahead_of_calls_by_the_host_and_a_common_start_ahead_of_none(plans):
    kinds = [(one.settings.exchange.mode, one.settings.backend.device.rendezvous) for one in report.in_order(plans)]
    assert list(dict.fromkeys(kinds)) == [("graph", "host"), ("graph", "device"), ("eager", "host")]
    assert len(list(dict.fromkeys(map(plots.timing, report.in_order(plans))))) == 4


SHARED = {"2A2F": 2, "3A1F": 3, "1A3F": 3}
"""Ranks on the fullest GPU where four ranks share two: roles have GPUs of their own."""


@pytest.fixture(scope="module")
def colocated():
    return found("h200-colocated")


def test_both_arms_stand_in_every_cell_of_three_layouts_whose_ranks_share_gpus(colocated):
    most = {row.layout: one.settings.backend.ranks_per_gpu for one in colocated for row in one.settings.rows}
    assert most == SHARED
    for one in colocated:
        assert [arm.name for arm in one.settings.arms] == ["m2n", "afdep"]
        assert one.settings.tokens == TOKENS
        assert one.settings.backend.pairs == 2
        assert one.findings.absences == one.findings.lost == ()


def test_every_process_proved_its_exchanges_and_says_that_ranks_shared_gpus(colocated):
    records = records_of(colocated)
    assert len(records) == 4 * 2 * 2 * len(TOKENS) * len(SHARED)
    assert {record.status for record in records} == {"ok"}
    assert all(record.proofs_passed == record.proof_exchanges >= 3 for record in records)
    assert {record.placement for record in records} == {f"{most} ranks on the fullest GPU" for most in SHARED.values()}


def test_afdep_takes_less_than_m2n_in_every_pair_of_every_cell_whose_ranks_share_gpus(colocated):
    for one in colocated:
        for tokens in TOKENS:
            baseline, candidate = (one.findings.repeats_us(0, tokens, arm) for arm in range(2))
            assert len(baseline) == len(candidate) == 2
            assert max(candidate) < min(baseline)
            assert median(candidate) > 15


def test_the_page_of_ranks_that_share_gpus_says_so_in_its_columns():
    assert "`afdep` measured, co-located" in (DESK.root / "reports" / "screen" / "h200-colocated.md").read_text("utf-8")
