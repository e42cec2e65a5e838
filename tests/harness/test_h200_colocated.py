"""What four ranks that share two H200s measured: both arms in every cell, told apart from ranks with a GPU each."""

from statistics import median

import pytest

from harness import pages
from harness.workspace import REPOSITORY, Workspace

TOKENS = [1, 8, 32, 128, 512, 2048]
RANKS = {"2A2F": 2, "3A1F": 3, "1A3F": 3}
"""Ranks on the fullest GPU: roles have GPUs of their own."""


@pytest.fixture(scope="module")
def parts():
    return pages.parts_of(Workspace(REPOSITORY / "records" / "h200-colocated"))


def test_both_arms_stand_in_every_cell_of_three_layouts(parts):
    found = {row.layout: part.plan.backend.ranks_per_gpu for part in parts for row in part.plan.rows}
    assert found == RANKS
    for part in parts:
        assert [arm.name for arm in part.plan.arms] == ["m2n", "afdep"]
        assert [cell.tokens for cell in part.plan.cells] == TOKENS
        assert part.plan.backend.pairs == 2
        assert part.found.absences == ()


def test_every_process_proved_its_exchanges_and_says_that_ranks_shared_gpus(parts):
    records = [record for part in parts for record in part.reading.records]
    assert len(records) == 4 * 2 * 2 * len(TOKENS) * len(RANKS)
    assert {record.status for record in records} == {"ok"}
    assert all(record.proofs_passed == record.proof_exchanges >= 3 for record in records)
    assert {record.placement for record in records} == {f"{ranks} ranks on the fullest GPU" for ranks in RANKS.values()}


def test_afdep_takes_less_than_m2n_in_every_pair_of_every_cell(parts):
    for part in parts:
        for tokens in TOKENS:
            baseline, candidate = (part.found.repeats_us(0, tokens, arm) for arm in range(2))
            assert len(baseline) == len(candidate) == 2
            assert max(candidate) < min(baseline)
            assert median(candidate) > 15


def test_the_kept_page_is_that_of_its_records(parts):
    page = (REPOSITORY / "reports" / "h200-colocated.md").read_text("utf-8")
    assert page == pages.text(parts, {}, "h200-colocated-latency.png")
    assert "`afdep` measured, co-located" in page
