"""The verb `hunt`: parallel seeds, its record, its settings, and what it says of a finding."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from afdep import ArmError, ControlError, KernelTime
from afdep.proof.scenario import Hunt
from harness.errors import HarnessError
from harness.hunt.findings import replay_command, trace_lines
from harness.records import RecordError
from harness.records.hunts import read_hunts
from harness.surroundings import Surroundings
from harness.verbs import hunt

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "records" / "hunts" / "night.parquet"
NIGHT_SEEDS = 20_000


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return Surroundings(tmp_path, {}, float, lambda: datetime(2026, 1, 2, tzinfo=UTC), lambda line: None)


def test_a_clean_hunt_in_two_processes_is_recorded_and_kept(around):
    assert hunt.run(["budget=12", "jobs=2", "keep=twelve"], around) == 0
    records = read_hunts(around.repository / "records" / "hunts" / "twelve.parquet")
    assert [(one.arm, one.seeds_run, one.failed_seeds) for one in records] == [("m2n", 12, ()), ("afdep", 12, ())]
    assert records[0].native_digest.startswith("n")
    assert json.loads(records[0].hunt)["capacity"] == Hunt.small("m2n").capacity


def test_a_kept_record_is_never_replaced(around):
    assert hunt.run(["seeds=[1]", "jobs=1", "keep=once"], around) == 0
    with pytest.raises(HarnessError, match="expected a new name"):
        hunt.run(["seeds=[1]", "jobs=1", "keep=once"], around)


def test_a_hunt_is_recorded_in_an_out_folder_anywhere(around, tmp_path_factory):
    out = tmp_path_factory.mktemp("elsewhere")
    assert hunt.run(["arm=afdep", "seeds=[1]", "jobs=1", f"launcher.out={out}"], around) == 0
    (path,) = (out / "hunts").iterdir()
    assert [one.arm for one in read_hunts(path)] == ["afdep"]


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        (["arm=nccl"], ArmError, "expected one built here"),
        (["hunt.graphs=2"], HarnessError, "expected a share"),
        (["hunt.controls=[AFDEP_NO]"], ControlError, "expected a known name"),
        (["hunt.capacity=0"], HarnessError, "at least 1"),
        (["budget=0"], HarnessError, "at least 1"),
        (["keep=A B"], HarnessError, "small letters"),
        (["hunt.fiber=lane"], HarnessError, "Valid: warp, thread"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_setting_of_no_use_is_refused(around, texts, error, words):
    with pytest.raises(error, match=words):
        hunt.run(texts, around)


def test_a_damaged_record_is_refused(around):
    hunt.run(["seeds=[1]", "jobs=1", "keep=once"], around)
    path = around.repository / "records" / "hunts" / "once.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(RecordError, match="content hash"):
        read_hunts(path)


def test_the_replay_command_names_what_differs_from_the_small_hunt():
    one = Hunt.small("afdep[AFDEP_UNION_NOTIFY=1]", layouts=("1A1F",), capacity=8)
    words = replay_command(one, 17)
    assert "seeds=[17]" in words
    assert "hunt.layouts=[1A1F]" in words
    assert "hunt.capacity=8" in words
    assert "hunt.hidden" not in words


def test_the_trace_has_a_line_for_each_buffer_and_exchange():
    of_first = (KernelTime(1, "dispatch", 1, 0, 0.0, 2.0), KernelTime(1, "combine", 1, 0, 3.0, 4.5))
    assert trace_lines((*of_first, KernelTime(1, "dispatch", 1, 1, 1.0, 2.5))) == [
        "exchange 1 rank 1, us: dispatch 0.0..2.0, combine 3.0..4.5",
        "exchange 1 rank 1 second Buffer, us: dispatch 1.0..2.5",
    ]


def test_the_kept_night_is_clean_over_20000_seeds_of_each_family():
    records = {one.protocol: one for one in read_hunts(KEPT)}
    assert set(records) == {"m2n", "afdep"}
    assert all(one.seeds_run >= NIGHT_SEEDS and not one.findings and not one.failed_seeds for one in records.values())
    assert {one.native_digest for one in records.values()} == {records["m2n"].native_digest}
    assert records["m2n"].native_digest.startswith("n")
