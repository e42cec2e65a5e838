"""A screen on the real simulator: exact, deterministic, and the planned library."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from afdep import native_digest
from harness.desk import run
from harness.desk.desk import real
from harness.ranks.exchanges import RoundTrip
from harness.records import read, record_files

ARMS = "arm=[m2n,m2n,afdep@bd4db4da]"


def measured(out: Path, tokens: str) -> tuple[int, list[RoundTrip], str]:
    """A screen of this very tree: status, records and what was printed."""
    lines: list[str] = []
    texts = ["screen=grid", f"tokens={tokens}", ARMS, "screen.declared_aa=true", f"launcher.out={out}"]
    status = run.run("screen", texts, replace(real(), print_line=lines.append))
    reading = read(record_files(out / "records"))
    assert reading.quarantined == ()
    return status, list(reading.of(RoundTrip)), "\n".join(lines)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("first"), "[0,1,16]")


def cells(found: list[RoundTrip]) -> dict[tuple[str, int, int, int | None], tuple[float, ...] | None]:
    return {(one.arm, one.position, one.tokens, one.rank): one.samples_us for one in found}


def test_every_cell_is_proved_and_timed_that_without_tokens_as_well(first):
    status, found, text = first
    assert status == 0, text
    assert {(one.status, one.proofs_passed) for one in found} == {("ok", 1)}
    assert len(found) == 3 * 3 * 2
    assert {(one.tokens, one.bucket) for one in found} == {(0, 1), (1, 1), (16, 16)}


def test_the_loaded_library_is_the_one_of_this_tree(first):
    assert {one.loaded_digest for one in first[1]} == {str(native_digest("sim"))}


def test_a_row_says_which_code_ran_and_on_how_many_processors(first):
    (code,) = {one.code_digest for one in first[1]}
    assert code.startswith("c")
    assert {one.affinity for one in first[1]} == {len(os.sched_getaffinity(0))}
    assert {one.loaded_protocol for one in first[1]} == {"m2n", "afdep"}


def test_an_aa_of_the_simulator_differs_in_nothing_and_agrees(first):
    samples = cells(first[1])
    assert all(samples["m2n", 0, t, rank] == samples["m2n", 1, t, rank] for _, _, t, rank in samples)
    assert "repeats agree" not in first[2]
    assert "0.0%)" in first[2]


def test_the_role_directed_arm_is_faster_at_one_token(first):
    us = {one.arm: one.latency_us for one in first[1] if (one.tokens, one.role) == (1, "attention")}
    assert us["afdep@bd4db4da"] < us["m2n"]


def test_a_second_measurement_gives_the_same_samples_whatever_was_measured_before(first, tmp_path):
    status, found, text = measured(tmp_path, "[16,1]")
    assert status == 0, text
    assert cells(found) == {key: samples for key, samples in cells(first[1]).items() if key[2] != 0}


def test_a_cells_times_do_not_depend_on_its_company(first, tmp_path):
    status, found, text = measured(tmp_path, "[16]")
    assert status == 0, text
    assert cells(found) == {key: samples for key, samples in cells(first[1]).items() if key[2] == 16}
