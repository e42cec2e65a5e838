"""The report of empty exchanges: no figure of a process that lacks a rank, and none of two plans together."""

import dataclasses

from harness.records import Reading
from harness.report.results import Part, Results
from harness.studies.empty_exchange import report
from tests.harness.samples import record


def lines(*rows):
    """The lines of the table below its rule."""
    plain = tuple(dataclasses.asdict(one) | {"table": one.table} for one in rows)
    page = report.summary(Results("empty-exchange", "mine", (Part(None, Reading(plain)),)))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.split("\n\n")[0].splitlines()[2:]]


def test_figures_of_two_plans_stand_in_lines_of_their_own():
    other = record(plan_hash="p2", key="k2", hidden=64, latency_us=10.0)
    assert lines(record(), other) == [["p1", "1A1F", "simulated", "30.0"], ["p2", "1A1F", "simulated", "10.0"]]


def test_a_process_that_lacks_an_attention_rank_gives_no_figure():
    ranks = [record(layout="2A1F", rank=0, role="ffn"), record(layout="2A1F", rank=1), record(layout="2A1F", rank=2)]
    whole = [dataclasses.replace(one, key="k2", arm="afdep") for one in ranks]
    assert lines(*ranks, *whole) == [["p1", "2A1F", "simulated", "30.0", "30.0"]]
    assert lines(*ranks[:2], *whole) == [["p1", "2A1F", "simulated", "\u2014", "30.0"]]


def test_rows_of_ffn_ranks_alone_end_no_report():
    assert lines(record(rank=0, role="ffn")) == []
