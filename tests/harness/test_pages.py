"""The page of several plans: each kind of figure has a column of its own, and the kept page is of the kept records."""

import dataclasses
import json

import pytest

from harness import measured_plots, pages, upstream
from harness.screen_config import Backend, DeviceTiming, Floor, Row
from harness.errors import PublishedError
from harness.identity import Identity
from harness.order import processes
from harness.plan import PlanFile, PlannedArm
from harness.records import Reading, read
from harness.workspace import REPOSITORY, Workspace
from tests.harness.samples import EXCHANGE, plan, record

KEPT = REPOSITORY / "records" / "h200"
HOST = DeviceTiming("host", 0, 12, 3, 10, "auto", Floor(500.0, 343.0))
ROW = Row("1A1F", 2048, "bf16", "random", None, 128)
US = {"m2n": 30.0, "afdep@bd4db4da": 20.0, "nccl": 25.0}


def measured(us=US, device=HOST, ranks=1, **exchange):
    """A part: a plan of three arms in two pairs, and its records with one figure an arm and pair."""
    backend = Backend("cuda" if device else "sim", "h200-nvlink", False, 2, 20, 3, ranks, "one rank per GPU", device)
    arms = (*plan().arms, PlannedArm("nccl", 0, Identity("external", "nccl", ())))
    changes = {"rows": (ROW,), "arms": arms, "processes": processes(1, 3, 1, 2)}
    own = dataclasses.replace(plan(), backend=backend, exchange=dataclasses.replace(EXCHANGE, **exchange), **changes)
    found = [_record(own, one, cell, us) for one in own.processes for cell in own.cells]
    return pages.Part.of(PlanFile(own.plan_hash, "now", "command", own), Reading(tuple(found), (), 1))


def _record(own, process, cell, us):
    name = own.arms[process.arm].name
    loaded = {"loaded_digest": "torch 1, nccl 2" if name == "nccl" else "n12345678", "loaded_protocol": name}
    figures = {"latency_us": us[name] + process.pair, "host_us": 70.5, "host_calls": 20.0}
    facts = json.dumps({"gpus": 2, "device": "NVIDIA H200"})
    place = {"row": 0, "tokens": cell.tokens, "arm": name, "arm_index": process.arm, "pair": process.pair}
    return record(key=own.cell_key(process, cell), observed=facts, **place, **figures, **loaded)


def header(text):
    return next(line for line in text.splitlines() if line.startswith("| "))


def test_a_measured_cell_has_its_pairs_and_its_paired_change():
    assert "| 30.5 (30.0\u201331.0) " in pages.text([measured()], {})
    assert "20.5 (20.0\u201321.0; \u221232.8%)" in pages.text([measured()], {})


def test_upstream_and_simulated_figures_stand_in_columns_of_their_own():
    simulated = measured({name: us + 10 for name, us in US.items()}, None)
    text = pages.text([measured(), simulated], upstream.load())
    columns = [name.strip() for name in header(text).strip("|").split("|")]
    assert columns[:4] == ["T", "`m2n` measured", "upstream as M2N, published", "`m2n` simulated"]
    assert "| 30.5 (30.0\u201331.0) |                 32.4, 34.2 |            40.5 |" in text


def test_a_column_without_a_figure_is_left_out():
    assert "published" not in header(pages.text([measured()], {}))


def test_bare_rows_are_labelled_and_their_library_is_named():
    text = pages.text([measured()], {})
    assert "`nccl` (bare rows) measured" in header(text)
    assert "- external: torch 1, nccl 2" in text
    assert "- ran on 2 x NVIDIA H200" in text


def test_an_eager_plan_shows_what_an_exchange_costs_the_host():
    text = pages.text([measured(mode="eager")], upstream.load())
    assert "`m2n` host us, API calls" in header(text)
    assert "70.5, 20.0" in text
    assert "published" not in header(text)


def test_plans_that_timed_alike_stand_under_one_heading():
    free = dataclasses.replace(HOST, rendezvous="device", least_replay_us=2000)
    text = pages.text([measured(), measured(device=free), measured(transport_sms=64)], {})
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len([one for one in headings if "transport SMs" in one]) == 3
    assert any("at least 2,000 us each, free-running" in one for one in headings)


@pytest.mark.parametrize(
    ("ranks", "words"), [(1, ", each behind a barrier of all ranks"), (3, ", at most 3 ranks a GPU, co-located")]
)
def test_a_heading_says_how_many_ranks_the_fullest_gpu_has_where_they_share(ranks, words):
    (heading,) = [line for line in pages.text([measured(ranks=ranks)], {}).splitlines() if line.startswith("## 24")]
    assert heading.endswith(words)


def test_ranks_that_share_gpus_stand_beside_no_other_kind_of_figure():
    alone, shared = (header(pages.text([measured(ranks=ranks)], upstream.load())) for ranks in (1, 2))
    assert "published" in alone
    assert "`m2n` measured, co-located" in shared
    assert "published" not in shared


def test_a_missing_cell_is_a_dash_and_is_listed():
    part = measured()
    fewer = tuple(one for one in part.reading.records if (one.arm, one.tokens) != ("nccl", 8))
    text = pages.text([pages.Part.of(part.file, Reading(fewer, (), 1))], {})
    assert "| \u2014 |" in text.replace("  ", "")
    assert "- missing: 1A1F, 2,048, random, nccl, pair 1, T = 8: not run" in text


def test_upstream_figures_are_data_with_a_source():
    figures = upstream.load()
    assert figures["upstream", upstream.Place("1A1F", 2048, "bf16", "random", 1, 24)] == (32.4, 34.2)
    assert (upstream.TABLE.parent / "README.md").is_file()


def test_a_lost_table_of_upstream_figures_is_an_error(tmp_path):
    with pytest.raises(PublishedError, match="expected under"):
        upstream.load(tmp_path / "round-trips.csv")


def test_the_kept_page_is_the_one_of_the_kept_records():
    text = pages.text(pages.parts_of(Workspace(KEPT)), upstream.load(), "h200-latency.png")
    assert (REPOSITORY / "reports" / "h200.md").read_text("utf-8") == text


def test_the_kept_plot_is_drawn_again_to_the_last_byte(tmp_path):
    drawn = measured_plots.latency(pages.parts_of(Workspace(KEPT)), upstream.load(), tmp_path / "again.png")
    assert drawn.read_bytes() == (REPOSITORY / "reports" / "h200-latency.png").read_bytes()


def test_graph_replays_stand_ahead_of_calls_by_the_host_and_a_common_start_ahead_of_none():
    free = dataclasses.replace(HOST, rendezvous="device", least_replay_us=2000)
    parts = [measured(mode="eager"), measured(device=free), measured(transport_sms=64), measured()]
    assert pages.in_order(parts) == [parts[3], parts[2], parts[1], parts[0]]


def test_a_page_without_graph_replays_has_no_plot(tmp_path):
    assert measured_plots.latency([measured(mode="eager"), measured(device=None)], {}, tmp_path / "none.png") is None
    assert not list(tmp_path.iterdir())


def test_every_kept_record_is_read():
    reading = read(sorted(KEPT.rglob("*.parquet")))
    assert reading.records
    assert reading.quarantined == ()
