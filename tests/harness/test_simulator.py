"""The same screen on the real simulator: exact, deterministic, and the planned library."""

import itertools
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afdep import native_digest
from harness import records
from harness.surroundings import Surroundings, real
from harness.verbs import screen

ARMS = "arm=[m2n,m2n,afdep@bd4db4da]"


def run(out: Path, tokens: str = "[1,16]") -> tuple[int, list[records.Record], str]:
    """A screen of this very tree: status, records and what was printed."""
    lines: list[str] = []
    now = datetime(2026, 1, 2, tzinfo=UTC)
    around = Surroundings(real().repository, real().environ, itertools.count().__next__, lambda: now, lines.append)
    texts = ["screen=grid", f"tokens={tokens}", ARMS, "screen.declared_aa=true", f"launcher.out={out}"]
    status = screen.run(texts, around)
    reading = records.read(sorted(out.glob("records/*/*.parquet")))
    return status, list(reading.records), "\n".join(lines)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return run(tmp_path_factory.mktemp("first"))


def cells(found: list[records.Record]) -> dict[tuple[int, int, int | None], tuple[float, ...] | None]:
    return {(one.arm_index, one.tokens, one.rank): one.samples_us for one in found}


def test_every_cell_is_proved_and_timed(first):
    status, found, text = first
    assert status == 0, text
    assert {(one.status, one.proofs_passed) for one in found} == {("ok", 1)}
    assert len(found) == 3 * 2 * 2


def test_the_loaded_library_is_the_one_of_this_tree(first):
    assert {one.loaded_digest for one in first[1]} == {str(native_digest("sim"))}
    assert {one.loaded_protocol for one in first[1]} == {"m2n", "afdep"}


def test_an_aa_of_the_simulator_differs_in_nothing(first):
    samples = cells(first[1])
    assert all(samples[0, tokens, rank] == samples[1, tokens, rank] for _, tokens, rank in samples)


def test_the_role_directed_arm_is_faster_at_one_token(first):
    attention = {one.arm_index: one.latency_us for one in first[1] if (one.tokens, one.role) == (1, "attention")}
    assert attention[2] < attention[0]


def test_a_second_measurement_gives_the_same_samples(first, tmp_path):
    status, found, text = run(tmp_path)
    assert status == 0, text
    assert cells(found) == cells(first[1])


@pytest.mark.parametrize("tokens", ["[16]", "[16,1]"])
def test_a_cells_times_do_not_depend_on_its_company(first, tmp_path, tokens):
    status, found, text = run(tmp_path, tokens)
    assert status == 0, text
    alone = {key: samples for key, samples in cells(found).items() if key[1] == 16}
    assert alone == {key: samples for key, samples in cells(first[1]).items() if key[1] == 16}
