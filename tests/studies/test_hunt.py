"""Hunts: which seeds run, what a finding is and says, and what is left when a process or the user ends one."""

import json
import shlex
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from afdep import AfdepError, KernelTime, MismatchError
from afdep.proof import scenario
from afdep.proof.hunt import Finding
from afdep.proof.scenario import Hunt
from harness import cli
from harness.errors import Exit, HarnessError
from harness.records import table
from harness.records.envelope import FAILED, OK, VOID
from harness.report.results import Part, Results
from harness.studies.hunt import program, report
from harness.studies.hunt.program import Record, Trial, blocks, hunt_of, judge, replay_command, trace_lines
from harness.study import Batch, Ended, VoidError
from tests.studies.bench import ROOT, Alone, copied_tree, desk_at, edit, rows_of, settings_of

ARCHIVED = ROOT / "records" / "hunt" / "night.parquet"
NIGHT_SEEDS = 20_000


def trials(settings, done=()) -> list[Trial]:
    return [trial for block in blocks(settings, done) for batch in block.batches for trial in batch.trials]


def row_of(trial: Trial, status: str = OK) -> Record:
    reason = None if status == OK else "a reason"
    return Record(arm=trial.arm, first_seed=trial.first_seed, status=status, reason=reason)


def said_of(settings, trial: Trial, **group) -> tuple[dict, Alone]:
    alone = Alone(settings, **group)
    (said,) = program.run(Batch((trial,)), alone)
    return dict(said.facts), alone


def judged(settings, trial: Trial, ended: Ended) -> Record:
    (row,) = judge(SimpleNamespace(settings=settings), Batch((trial,)), trial, ended)
    table.checked(row)
    return row


def results(*rows: Record) -> Results:
    plain = tuple({**vars(row), "table": Record.table} for row in rows)
    return Results("hunt", "night", (Part(None, table.Reading(plain)),))


@pytest.fixture
def failing(monkeypatch):
    """Seed 3 fails, whatever is hunted, and can be made small."""
    found = Finding(3, scenario.draw(Hunt.small("afdep"), 3), MismatchError("collected", 0, 1, 2.0, 3.0), ())
    monkeypatch.setattr(program, "run_seed", lambda hunt, seed: found if seed == 3 else None)
    monkeypatch.setattr(program, "minimise", lambda hunt, seed: (replace(hunt, capacity=8), found))


def test_rounds_hold_every_seed_of_every_arm_once():
    settings = settings_of("hunt", "budget=9001", "first_seed=7")
    asked: list[Trial] = []
    while found := trials(settings, [row_of(one) for one in asked]):
        assert max(sum(one.arm == arm for one in found) for arm in ("m2n", "afdep")) <= 16
        asked += found
    assert len(set(asked)) == len(asked) == 2 * 37
    assert [seed for one in asked if one.arm == "m2n" for seed in one.seeds] == list(range(7, 9008))


@pytest.mark.parametrize("status", [FAILED, VOID])
def test_an_arm_gets_no_further_round_once_seeds_of_it_are_not_clean(status):
    settings = settings_of("hunt", "budget=9000")
    first = trials(settings)
    done = [row_of(one, status if one == first[0] else OK) for one in first]
    assert {one.arm for one in trials(settings, done)} == {"afdep"}
    assert {one.arm for one in trials(settings, [*done, row_of(first[0])])} == {"m2n", "afdep"}


def test_seeds_by_name_are_stretches_of_one():
    found = trials(settings_of("hunt", "arm=afdep", "seeds=[17,3]"))
    assert found == [Trial("afdep", 17), Trial("afdep", 3)]


def test_a_clean_stretch_runs_every_seed_and_says_which_it_is_at():
    settings, trial = settings_of("hunt"), Trial("afdep", 3, 12)
    facts, alone = said_of(settings, trial)
    row = judged(settings, trial, Ended({0: facts}, {0: alone.opened}))
    assert alone.seeds == list(range(3, 15))
    assert (row.status, row.first_seed, row.last_seed, row.seeds_run, row.failed_seeds) == (OK, 3, 14, 12, ())
    assert json.loads(row.hunt)["capacity"] == Hunt.small("m2n").capacity
    assert alone.checked[0][1].protocol == row.protocol == "afdep"


def test_a_seed_that_fails_ends_its_stretch_and_is_told_small(failing):
    settings, trial = settings_of("hunt"), Trial("afdep", 0, 12)
    facts, alone = said_of(settings, trial)
    row = judged(settings, trial, Ended({0: facts}, {0: alone.opened}))
    assert (row.status, row.seeds_run, row.failed_seeds, alone.seeds[-1]) == (FAILED, 4, (3,), 3)
    finding, replay = row.findings[0].splitlines()
    assert finding == row.reason
    assert finding.startswith("seed 3 (")
    assert "MismatchError: " in finding
    assert replay == """replay: afdep-bench hunt 'arm=["afdep"]' 'seeds=[3]' hunt.capacity=8"""


def test_a_library_of_another_tree_is_not_hunted(monkeypatch):
    def refuse(self, arm, loaded):
        raise VoidError("digest: the plan expects another")

    monkeypatch.setattr(Alone, "check", refuse)
    with pytest.raises(VoidError):
        said_of(settings_of("hunt"), Trial("afdep", 3))


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(5, (FAILED, (5,), 3)), (2, (VOID, (), 0)), (13, (VOID, (), 0)), (None, (VOID, (), 0))],
    ids=["in it", "before it", "behind it", "nowhere"],
)
def test_a_seed_that_ends_its_process_has_failed_if_it_is_of_the_stretch(seed, expected):
    opened = {} if seed is None else {0: {"seed": seed}}
    ended = Ended({}, opened, endings={0: "signal: ended by SIGSEGV"})
    row = judged(settings_of("hunt"), Trial("afdep", 3, 10), ended)
    assert (row.status, row.failed_seeds, row.seeds_run) == expected
    assert "SIGSEGV" in str(row.reason)
    assert ("seed 5 ended its process" in str(row.reason)) == (seed == 5)


def test_a_stretch_that_nobody_could_run_is_void():
    row = judged(settings_of("hunt"), Trial("afdep", 3, 10), Ended({}, {0: {"seed": 5}}, void="another harness"))
    assert (row.status, row.reason, row.failed_seeds) == (VOID, "another harness", ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arm=nccl", "expected one built here"),
        ("arm=[]", "arm.values: expected 1 or more entries"),
        ("arm=[afdep,'afdep[AFDEP_UNION_NOTIFY=0]']", "expected each entry once, received 'afdep' twice"),
        ("hunt.graphs=2", "hunt.graphs: expected 0 to 1"),
        ("hunt.controls=[AFDEP_NO]", "expected a known name"),
        ("hunt.capacity=0", "hunt.capacity: expected 1 or more"),
        ("hunt.layouts=[]", "hunt.layouts: expected 1 or more entries"),
        ("budget=0", "budget: expected 1 to"),
        ("seeds=[]", "seeds: expected 1 or more entries"),
        ("seeds=[-1]", "seeds: expected 0 to"),
        ("seeds=[9223372036854775808]", "seeds: expected 0 to"),
        ("first_seed=9223372036854775807", "first_seed: expected 0 to"),
        ("hunt.fiber=lane", "Valid: warp, thread"),
        ("jobs=1", "jobs: expected a key"),
    ],
    ids=lambda value: value if "=" in value else None,
)
def test_a_setting_of_no_use_is_refused(text, words):
    with pytest.raises((HarnessError, AfdepError), match=words.replace("[", r"\[")):
        settings_of("hunt", text)


def test_the_last_seed_that_can_be_asked_for_fits_a_record():
    settings = settings_of("hunt", f"first_seed={2**62}", f"budget={2**62}")
    ended = Ended({0: {}}, {})
    assert judged(settings, Trial("afdep", 2**63 - 2, 2), ended).last_seed == 2**63 - 1
    assert len(trials(settings)) == 32


def test_all_controls_are_drawn_in_one_order():
    shape = settings_of("hunt", "hunt.controls=all").hunt
    every = hunt_of(shape, "afdep").controls
    some = settings_of("hunt", f"hunt.controls=[{every[2]},{every[0]}]").hunt
    assert every == hunt_of(settings_of("hunt").hunt, "afdep").controls + every
    assert hunt_of(some, "afdep").controls == (every[0], every[2])


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"layouts": ("1A1F",), "capacity": 8, "graphs": 1.0},
        {"layouts": ("1A1F", "3A1F"), "fiber": "thread", "dtype": "fp8", "hidden": 128, "aborts": 0.0},
    ],
    ids=["small", "made small", "another"],
)
@pytest.mark.parametrize("arm", ["m2n", "afdep[AFDEP_UNION_NOTIFY=1]"])
def test_the_replay_command_asks_for_the_same_hunt(arm, changed):
    hunt = Hunt.small(arm, **changed)
    words = shlex.split(replay_command(hunt, 17))
    settings = settings_of("hunt", *words[2:])
    assert words[:2] == ["afdep-bench", "hunt"]
    assert sum(word.startswith("hunt.") for word in words) == len(changed)
    assert hunt_of(settings.hunt, *settings.arm.values) == hunt
    assert trials(settings) == [Trial(arm, 17)]


def test_the_trace_has_a_line_for_each_buffer_and_exchange():
    of_first = (KernelTime(1, "dispatch", 1, 0, 0.0, 2.0), KernelTime(1, "combine", 1, 0, 3.0, 4.5))
    assert trace_lines((*of_first, KernelTime(1, "dispatch", 1, 1, 1.0, 2.5))) == [
        "exchange 1 rank 1, us: dispatch 0.0..2.0, combine 3.0..4.5",
        "exchange 1 rank 1 second Buffer, us: dispatch 1.0..2.5",
    ]


def test_the_archived_night_is_clean_over_20000_seeds_of_each_protocol():
    records = {one.protocol: one for one in table.read([ARCHIVED]).of(Record)}
    assert set(records) == {"m2n", "afdep"}
    assert all(one.seeds_run >= NIGHT_SEEDS and not one.findings and not one.failed_seeds for one in records.values())
    assert {one.native_digest for one in records.values()} == {records["m2n"].native_digest}
    assert str(records["m2n"].native_digest).startswith("n")


def test_a_damaged_night_is_quarantined(tmp_path):
    pq.write_table(pq.read_table(ARCHIVED).slice(1), tmp_path / "night.parquet")
    reading = table.read([tmp_path / "night.parquet"])
    assert (reading.rows, len(reading.quarantined)) == ((), 1)


def test_the_report_sums_the_stretches_of_an_arm():
    night = Results("hunt", "night", (Part(None, table.read([ARCHIVED])),))
    assert "| `m2n`   | m2n      |          0 |    19,999 |    20,000 |            0 |" in report.text(night)
    stretches = [Record(arm="m2n", first_seed=at, last_seed=at + 9, seeds_run=10) for at in (10, 0)]
    summed = "| `m2n` |          |          0 |        19 |        20 |            0 |"
    assert summed in report.text(results(*stretches))
    assert report.status(night) == Exit.OK


def test_the_report_has_each_finding_and_its_replay_and_says_found():
    failed = Record(arm="m2n", status=FAILED, reason="seed 3: x", failed_seeds=(3,), findings=("seed 3: x\nreplay: y",))
    assert "- `m2n`, seed 3: x\n  - replay: y\n" in report.text(results(failed, Record(arm="afdep", seeds_run=1)))
    assert report.status(results(failed)) == Exit.FOUND


def test_a_hunt_in_which_nothing_ran_has_nothing_to_say():
    assert report.status(results(Record(status=VOID, reason="no place"))) == Exit.NOTHING


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A hunt of a tree in which seed 5 kills its process: exit status, lines, rows."""
    tree = copied_tree(tmp_path_factory.mktemp("killed") / "tree")
    begins = "    drawn = scenario.draw(hunt, seed)\n    world = world_of"
    kill = '    if seed == 5 and hunt.arm == "m2n":\n        __import__("os").kill(__import__("os").getpid(), 9)\n'
    edit(tree / "afdep/proof/hunt.py", begins, kill + begins)
    lines: list[str] = []
    out = tmp_path_factory.mktemp("elsewhere")
    status = cli.main(["hunt", "budget=12", f"launcher.out={out}"], desk_at(tree, lines))
    return status, "\n".join(lines), rows_of(Record, out)


def test_a_seed_that_kills_its_process_is_a_finding_that_names_it(killed):
    status, text, rows = killed
    by_arm = {row.arm: row for row in rows}
    assert (status, set(by_arm)) == (Exit.FOUND, {"m2n", "afdep"})
    assert (by_arm["m2n"].failed_seeds, by_arm["m2n"].seeds_run) == ((5,), 6)
    assert "seed 5 ended its process: signal: ended by SIGKILL" in str(by_arm["m2n"].reason)
    assert """replay: afdep-bench hunt 'arm=["m2n"]' 'seeds=[5]'""" in text


def test_the_arms_beside_it_are_hunted_to_their_end(killed):
    (row,) = [row for row in killed[2] if row.arm == "afdep"]
    assert (row.status, row.seeds_run, row.machine) == (OK, 12, "h100-nvlink")
    assert (str(row.native_digest)[0], str(row.code_digest)[0], bool(row.compiler)) == ("n", "c", True)


def interrupt_after(count: int, folder: Path) -> None:
    """Be the user's Ctrl-C once so many record files are there."""
    while len(table.record_files(folder)) < count:
        time.sleep(0.01)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_ctrl_c_leaves_what_ran_and_the_next_command_goes_on(tmp_path):
    command = ["hunt", "arm=[afdep]", "seeds=[1,2,3,4,5]", "launcher.jobs=1", f"launcher.out={tmp_path}"]
    user = threading.Thread(target=interrupt_after, args=(2, tmp_path / "records"))
    user.start()
    assert cli.main(command, desk_at(ROOT, [])) == 128 + signal.SIGINT
    user.join()
    assert [*(tmp_path / "scratch").iterdir(), *(tmp_path / "trees").iterdir()] == []
    before = rows_of(Record, tmp_path)
    assert 2 <= len(before) < 5
    assert {row.reason for row in before} <= {None, "interrupted by SIGINT"}
    assert cli.main(command, desk_at(ROOT, [])) == Exit.OK
    rows = [row for row in rows_of(Record, tmp_path) if row.status == OK]
    assert sorted(row.first_seed for row in rows) == [1, 2, 3, 4, 5]
    assert len({row.run for row in rows}) == 2
