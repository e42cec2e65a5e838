"""The tests on GPUs as a study: what pytest writes becomes a row a test, set beside the cases from the field."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.records import read
from harness.report.results import Part, Results
from harness.studies.device_tests import program, report
from harness.studies.device_tests.program import Record
from harness.study import Ended, VoidError
from tests.studies.executing import ROOT, TWO_H200, prepare, run, settings_of

RECORD = ROOT / "records" / "device-tests" / "h200.parquet"
FILE = "tests/device/test_case.py"
RUN = """
import pytest

@pytest.mark.parametrize("rank", [0, 1])
def test_it_holds(rank): pass

@pytest.mark.parametrize("rank", [0, 1])
def test_it_fails(rank): assert not rank, "rank 1 is silent"

@pytest.fixture
def company():
    yield
    raise RuntimeError("a rank is left")

def test_it_ends_badly(company): assert False

def test_it_is_left_out(): pytest.skip("needs gpus:2")
"""
HANGS = "import time\n\ndef test_it_holds(): pass\n\ndef test_it_hangs(): time.sleep(60)\n"


class Group:
    """A process in a slot with one file of tests."""

    def __init__(self, folder, text, limit_s=60.0):
        (folder / "slot" / FILE).parent.mkdir(parents=True)
        (folder / "slot" / FILE).write_text(text)
        self.folder, self.settings, self.opened = folder, program.Settings(limit_s), {}
        self.session = SimpleNamespace(slot=folder / "slot", opened=lambda **facts: self.opened.update(facts))

    def turn(self):
        pass


def said(folder, text, gpus=TWO_H200, **more):
    """What a process says that runs a file of tests."""
    group = Group(folder, text, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.gpus, "found", lambda: gpus)
        (block,) = program.blocks(group.settings, ())
        (one,) = program.run(block.batches[0], group)
    return one.facts


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    facts = said(tmp_path_factory.mktemp("run"), RUN)
    return program.judge(None, None, program.Trial(), Ended({0: facts}))


def test_each_test_has_its_id_its_outcome_and_what_it_said(rows):
    found = {one.test: (one.outcome, one.said) for one in rows}
    assert found[f"{FILE}::test_it_holds[1]"] == found[f"{FILE}::test_it_fails[0]"] == ("passed", None)
    assert found[f"{FILE}::test_it_fails[1]"] == ("failed", "AssertionError: rank 1 is silent")
    assert found[f"{FILE}::test_it_ends_badly"][0] == "failed"
    assert found[f"{FILE}::test_it_is_left_out"] == ("skipped", "needs gpus:2")
    assert len(found) == 6


def test_a_test_that_passed_is_ok_one_that_was_skipped_is_void_and_any_other_has_failed(rows):
    found = {one.test.partition("::")[2]: (one.status, one.reason) for one in rows}
    assert found["test_it_holds[0]"] == ("ok", None)
    assert found["test_it_is_left_out"] == ("void", "needs gpus:2")
    assert found["test_it_fails[1]"] == ("failed", "AssertionError: rank 1 is silent")


def test_a_test_that_takes_too_long_is_interrupted_and_those_that_ended_count(tmp_path):
    tests = said(tmp_path, HANGS, limit_s=10.0)["tests"]
    assert [one["outcome"] for one in tests] == ["passed", "interrupted"]
    rows = program.judge(None, None, program.Trial(), Ended({0: {"tests": tests, "gpus": 2}}))
    assert [one.status for one in rows] == ["ok", "failed"]


def test_a_run_without_a_test_is_void_and_says_why(tmp_path):
    with pytest.raises(VoidError, match="expected tests that ran, received none: pytest ended with exit code 5"):
        said(tmp_path, "")


def test_a_node_without_gpus_is_refused_before_its_tests(tmp_path):
    with pytest.raises(VoidError, match="needs GPUs: no driver"):
        said(tmp_path, RUN, "needs GPUs: no driver")
    assert not (tmp_path / "junit.xml").exists()


def test_a_plan_on_a_machine_without_gpus_has_its_tests_in_place_and_is_void(tmp_path):
    ran = run(prepare("device-tests", settings_of("device-tests"), tmp_path), tmp_path)
    (row,) = ran.rows
    assert (row.status, row.backend) == ("void", "cuda")
    assert row.reason.startswith("needs GPUs")
    for path in ("tests/device/test_lost.py", "README.md", "examples/moe_layer.py"):
        assert (ran.executor.slots.path(0) / path).is_file()
    assert "tests/device/test_lost.py" in ran.executor.sources.measuring
    assert report.status(ran.results) == 3


def row(test, outcome="passed"):
    one = Record(test=test, outcome=outcome, test_s=1.5, gpus=2, machine="NVIDIA H200", created="2026-01-02")
    status = program.STATUS.get(outcome, "failed")
    said = None if status == "ok" else "it was silent"
    return replace(one, status=status, said=said, reason=said)


def results(*rows):
    found = read([RECORD])
    return Results(
        "device-tests",
        "h200",
        (Part(None, replace(found, rows=tuple(vars(one) | {"table": one.table} for one in rows))),),
    )


WANTED = [
    ("K1", "it holds", "tests/device/test_a.py::test_it"),
    ("K2", "so", "tests/device/test_b.py::test_so"),
]


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_a_named_test_of_which_one_parameter_did_not_pass_is_noticed(outcome):
    ids = ["tests/device/test_a.py::test_it[0]", "tests/device/test_b.py::test_so"]
    good, other = [row(one) for one in ids], row("tests/device/test_a.py::test_it[1]", outcome)
    assert report.not_passed(good, WANTED) == []
    assert report.not_passed([*good, other], WANTED) == ["tests/device/test_a.py::test_it"]


def test_a_named_test_that_was_not_run_is_noticed():
    assert report.not_passed([row("tests/device/test_a.py::test_it")], WANTED) == ["tests/device/test_b.py::test_so"]


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setattr(report, "named", lambda: WANTED)


def test_the_page_groups_the_tests_by_case_and_says_why_one_did_not_pass(named):
    text = report.text(results(*(row(f"{WANTED[0][2]}[{n}]", end) for n, end in enumerate(("passed", "failed")))))
    assert "| K1   | it holds  | `tests/device/test_a.py::test_it` | failed 1, passed 1 |" in text
    assert "| K2   | so        | `tests/device/test_b.py::test_so` | \u2014                  |" in text
    assert "- failed: `tests/device/test_a.py::test_it[1]`: it was silent" in text
    assert "- 2 x NVIDIA H200; 2026-01-02" in text
    assert "2 tests in 3 s" in text


def test_tests_that_no_case_names_stand_in_a_table_of_their_own(named):
    text = report.text(results(row("tests/device/test_c.py::test_other")))
    assert "`tests/device/test_c.py::test_other` | passed 1" in text.partition("## Other tests")[2]


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("failed", 1), ("skipped", 3)])
def test_the_exit_status_says_whether_a_test_failed_or_one_that_a_case_names_did_not_pass(named, outcome, status):
    rows = [row(WANTED[0][2], outcome), row(WANTED[1][2])]
    assert report.status(results(*rows)) == status


def test_the_page_of_cases_gives_its_gpu_tests_with_the_case_above_an_empty_cell(tmp_path):
    lines = [
        "| case | behaviour | where | test |",
        "|---|---|---|---|",
        "| K9 | it is named | GPU | tests/device/test_a.py::test_it |",
        "| | | GPU | tests/device/test_b.py::test_so |",
        "| K10 | simulated | sim | tests/sim/test_a.py::test_it |",
    ]
    (tmp_path / "cases.md").write_text("\n".join(lines))
    assert report.named(tmp_path / "cases.md") == [
        ("K9", "it is named", "tests/device/test_a.py::test_it"),
        ("K9", "it is named", "tests/device/test_b.py::test_so"),
    ]


def test_every_gpu_row_of_the_cases_from_the_field_is_read():
    lines = [line for line in report.CASES.read_text("utf-8").splitlines() if "| GPU |" in line]
    assert len(report.named()) == len(lines) > 20


def test_every_gpu_test_that_the_cases_from_the_field_name_has_passed():
    assert report.not_passed(read([RECORD]).of(Record), report.named()) == []


def test_the_page_is_that_of_the_record():
    text = (ROOT / "reports" / "device-tests" / "h200.md").read_text("utf-8")
    assert text == report.text(Results("device-tests", "h200", (Part(None, read([RECORD])),)))


def test_the_tests_ran_the_kernels_of_the_archived_screens():
    screens = read(sorted((ROOT / "records" / "screen" / "h200").glob("records/*/*.parquet"))).rows
    loaded = {one["loaded_digest"] for one in screens if one["loaded_protocol"] in ("m2n", "afdep")}
    assert {one.native_digest for one in read([RECORD]).of(Record)} == loaded
