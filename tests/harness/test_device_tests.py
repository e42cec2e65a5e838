"""The outcome of the tests on GPUs: read from what pytest writes, kept, and set beside the cases from the field."""

import dataclasses
import json
import subprocess
import sys

import pytest

from harness import arms
from harness.device_tests import facts, keep, page
from harness.device_tests.page import Named
from harness.errors import PlacementError, UsageError
from harness.records import read
from harness.records.device_tests import DeviceTestRecord, read_device_tests
from harness.validation.on_gpus import Gpus
from harness.workspace import REPOSITORY

RECORD = REPOSITORY / "records" / "device-tests" / "h200.parquet"
FACTS = facts.Facts("2026-01-02T00:00:00+00:00", "h1", "n12345678", "NVIDIA H200", 2)
PLAYED = """
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a run of pytest leaves."""
    root = tmp_path_factory.mktemp("run")
    (root / "tests" / "device").mkdir(parents=True)
    (root / "tests" / "device" / "test_case.py").write_text(PLAYED)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    words = ["tests/device", "-q", "-p", "no:cacheprovider", f"--junitxml={root / facts.JUNIT}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stdout
    (root / facts.FACTS).write_text(json.dumps(dataclasses.asdict(FACTS)))
    return root


def test_each_test_has_its_id_its_outcome_and_what_it_said(folder):
    found = {one.test: (one.outcome, one.said) for one in keep.records(folder)}
    file = "tests/device/test_case.py"
    assert found[f"{file}::test_it_holds[1]"] == found[f"{file}::test_it_fails[0]"] == ("passed", None)
    assert found[f"{file}::test_it_fails[1]"] == ("failed", "AssertionError: rank 1 is silent")
    assert found[f"{file}::test_it_ends_badly"][0] == "failed"
    assert found[f"{file}::test_it_is_left_out"] == ("skipped", "needs gpus:2")
    assert len(found) == 6


def test_a_record_is_replaced_and_reads_back_with_machine_digest_and_time(folder, tmp_path):
    path = tmp_path / "device-tests" / "h200.parquet"
    for _ in range(2):
        assert keep.main([str(folder), str(path)]) == 0
    kept = read_device_tests(path)
    assert list(kept) == keep.records(folder)
    assert {(one.native_digest, one.machine, one.gpus, one.created) for one in kept} == {
        ("n12345678", "NVIDIA H200", 2, FACTS.created)
    }


def test_a_run_without_a_test_is_refused(folder, tmp_path):
    (tmp_path / facts.FACTS).write_text((folder / facts.FACTS).read_text())
    (tmp_path / facts.JUNIT).write_text("<testsuites><testsuite/></testsuites>")
    with pytest.raises(UsageError, match=r"expected tests in junit.xml, received none"):
        keep.records(tmp_path)


@pytest.mark.parametrize("gpus", [Gpus(1, "NVIDIA H200", 132), "needs GPUs: no driver"], ids=["1", "0"])
def test_a_node_with_too_few_gpus_is_refused_before_its_tests(tmp_path, gpus):
    with pytest.raises(PlacementError, match=r"expected 2 GPUs, received (1|none)") as caught:
        facts.main([str(tmp_path / facts.FACTS)], gpus)
    assert len(str(caught.value).splitlines()) == 2
    assert not any(tmp_path.iterdir())


def test_a_runs_facts_never_stand_beside_the_tests_of_an_earlier_run(tmp_path, monkeypatch):
    (tmp_path / facts.JUNIT).write_text("<testsuites/>")
    monkeypatch.setattr(facts.build, "carried", lambda tree: tree)
    monkeypatch.setattr(facts.build, "build_info", lambda library: {"digest": "n12345678"})
    assert facts.main([str(tmp_path / facts.FACTS)], Gpus(2, "NVIDIA H200", 132)) == 0
    assert [path.name for path in tmp_path.iterdir()] == [facts.FACTS]
    assert facts.read(tmp_path / facts.FACTS).native_digest == "n12345678"


def record(test, outcome="passed"):
    said = None if outcome == "passed" else "it was silent"
    return DeviceTestRecord(**dataclasses.asdict(FACTS), test=test, outcome=outcome, seconds=1.5, said=said)


WANTED = [
    Named("K1", "it holds", "tests/device/test_a.py::test_it"),
    Named("K2", "so", "tests/device/test_b.py::test_so"),
]


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_a_named_test_of_which_one_parameter_did_not_pass_is_noticed(outcome):
    ids = ["tests/device/test_a.py::test_it[0]", "tests/device/test_b.py::test_so"]
    good, other = [record(one) for one in ids], record("tests/device/test_a.py::test_it[1]", outcome)
    assert page.not_passed(good, WANTED) == []
    assert page.not_passed([*good, other], WANTED) == ["tests/device/test_a.py::test_it"]


def test_a_named_test_that_was_not_run_is_noticed():
    assert page.not_passed([record("tests/device/test_a.py::test_it")], WANTED) == ["tests/device/test_b.py::test_so"]


def test_the_page_groups_the_tests_by_case_and_says_why_one_did_not_pass():
    text = page.text([record(f"{WANTED[0].function}[{n}]", end) for n, end in enumerate(("passed", "failed"))], WANTED)
    assert "| K1   | it holds  | `tests/device/test_a.py::test_it` | failed 1, passed 1 |" in text
    assert "| K2   | so        | `tests/device/test_b.py::test_so` | \u2014                  |" in text
    assert "- failed: `tests/device/test_a.py::test_it[1]`: it was silent" in text
    assert "- 2 x NVIDIA H200; 2026-01-02T00:00:00+00:00; 2 tests in 3 s" in text


def test_tests_that_no_case_names_stand_in_a_table_of_their_own():
    text = page.text([record("tests/device/test_c.py::test_other")], WANTED)
    assert "`tests/device/test_c.py::test_other` | passed 1" in text.partition("## Other tests")[2]


def test_the_page_of_cases_gives_its_gpu_tests_with_the_case_above_an_empty_cell(tmp_path):
    lines = [
        "| case | behaviour | where | test |",
        "|---|---|---|---|",
        "| K9 | it is named | GPU | tests/device/test_a.py::test_it |",
        "| | | GPU | tests/device/test_b.py::test_so |",
        "| K10 | simulated | sim | tests/sim/test_a.py::test_it |",
    ]
    (tmp_path / "cases.md").write_text("\n".join(lines))
    assert page.named(tmp_path / "cases.md") == [
        Named("K9", "it is named", "tests/device/test_a.py::test_it"),
        Named("K9", "it is named", "tests/device/test_b.py::test_so"),
    ]


def test_every_gpu_row_of_the_cases_from_the_field_is_read():
    lines = [line for line in page.CASES.read_text("utf-8").splitlines() if "| GPU |" in line]
    assert len(page.named()) == len(lines) > 20


def test_the_page_is_that_of_the_record_or_says_that_there_is_none():
    text = (REPOSITORY / "reports" / "device-tests.md").read_text("utf-8")
    assert text == page.text(page.kept(RECORD), page.named())
    assert ("No run is kept" in text) is not RECORD.is_file()


def kept():
    if not RECORD.is_file():
        pytest.skip("records/device-tests: no run is kept yet; bash slurm/h200-tests.sh prepares one")
    return read_device_tests(RECORD)


def test_every_gpu_test_that_the_cases_from_the_field_name_has_passed():
    assert page.not_passed(kept(), page.named()) == []


def test_the_tests_ran_the_kernels_of_the_kept_screens():
    screens = read(sorted((REPOSITORY / "records" / "h200").glob("records/*/*.parquet"))).records
    loaded = {one.loaded_digest for one in screens if not arms.is_external(one.arm)}
    assert {one.native_digest for one in kept()} == loaded
