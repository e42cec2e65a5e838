"""Pages, archives, exports and what is said of records: from plans and records alone."""

import dataclasses

import pytest

from harness.core.plan import Workspace
from harness.desk import report, run, select, status
from harness.errors import Exit, HarnessError, ReportError
from harness.records import Reading
from harness.report.page import not_ok, num_missing
from harness.report.results import Part, Results
from tests.harness.conftest import Bench, make_bench
from tests.harness.samples import FREE, ROW, lay, on_gpus, plan, record, records, settings

README = f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\n## Install\n"
CLOSED = "\n\n## Install\n"


def says(bench: Bench, command, *texts: str) -> tuple[int, str]:
    """The status of a command, and what it prints."""
    bench.lines.clear()
    found = command("screen", list(texts), bench.desk)
    return found, bench.text


def test_a_page_holds_table_plots_and_provenance(measured):
    assert says(measured, report.run)[0] == 0
    (page,) = measured.out("reports").rglob("report.md")
    text = page.read_text()
    assert "| 1A1F, 2,048, random     |   1 | 21.6 (31.6, \u221231.6%) |" in text
    assert "![Round trip against tokens](report-latency.png)" in text
    assert f"plan {measured.plan_file.plan_hash}" in text
    assert measured.plan_file.plan.trees[0].native_digest("sim") in text
    assert "`afdep-bench screen screen=grid 'tokens=[1,8]'`" in text
    assert all((page.parent / f"report-{name}.png").stat().st_size > 10_000 for name in ("latency", "change"))


def test_a_report_is_the_same_every_time(measured):
    pages = []
    for _ in range(2):
        says(measured, report.run)
        pages.append([path.read_bytes() for path in sorted(measured.out("reports").rglob("*.*"))])
    assert pages[0] == pages[1]


def test_a_block_of_a_page_takes_the_short_form_and_nothing_else_changes(bench):
    own = plan(rows=(ROW,), arms=("m2n", "afdep"), backend=on_gpus(), published=None)
    lay(bench.out(""), own, records(own))
    (bench.root / "README.md").write_text(README)
    assert says(bench, report.run, "to=README.md")[0] == 0
    text = (bench.root / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{report.BEGIN}\nRound trip")
    assert text.endswith(f"{report.END}{CLOSED}")
    assert "30.5 (30.0\u201331.0)" in text
    assert own.plan_hash in text
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# Title", "## Install"]


def test_a_page_that_takes_a_short_form_stays_as_it_is_where_nothing_was_measured(measured):
    page = measured.root / "README.md"
    page.write_text(README)
    with pytest.raises(ReportError, match="expected a measured screen of m2n and afdep, received none"):
        report.run("screen", ["to=README.md"], measured.desk)
    assert page.read_text() == README


@pytest.mark.parametrize("text", ["no markers", report.BEGIN, README + README], ids=["none", "half", "two"])
def test_a_page_without_one_pair_of_markers_is_refused(text):
    with pytest.raises(ReportError, match=r"x\.md: expected one"):
        report.replace_block("x.md", text, "new")


def test_a_report_without_a_plan_says_what_to_do(tmp_path):
    with pytest.raises(ReportError, match=r"expected records, received nothing of that name\.\nRun the study first"):
        report.run("screen", [], make_bench(tmp_path / "repository").desk)


def test_a_study_without_a_plan_there_says_what_to_run(measured):
    with pytest.raises(ReportError, match=r"expected at least one, received none\.\nRun `afdep-bench empty-exchange`"):
        report.run("empty-exchange", [], measured.desk)


def test_an_unknown_plan_lists_the_known_ones(measured):
    with pytest.raises(HarnessError, match=f"Valid: latest, all, {measured.plan_file.plan_hash}"):
        report.run("screen", ["plan=p0000"], measured.desk)


def test_a_digest_that_measured_nothing_reports_nothing(measured):
    found, text = says(measured, report.run, "digest=n00000000")
    assert found == 3
    assert "nothing to report" in text


def test_a_study_that_is_incomplete_has_a_page_of_what_counts(bench, monkeypatch):
    own = plan(rows=(ROW,), arms=("m2n", "afdep"), backend=on_gpus(), published=None)
    lay(bench.out(""), own, records(own))
    monkeypatch.setattr("harness.studies.screen.report.status", lambda results: Exit.NOTHING)
    found, text = says(bench, report.run)
    assert found == 0
    assert "nothing to report" not in text
    assert list(bench.out("reports").rglob("report.md"))


def test_no_page_is_written_of_nothing(bench):
    lay(bench.out(""), plan(), [])
    assert says(bench, report.run)[0] == 3
    assert not bench.out("reports").exists()


def test_a_page_is_written_before_a_line_is_printed(measured):
    written = []

    def print_line(line):
        written.append(len(list(measured.out("reports").rglob("report.md"))))
        raise UnicodeEncodeError("ascii", line, 0, 1, "no place for it")

    for path in measured.out("reports").rglob("report.md"):
        path.unlink()
    with pytest.raises(UnicodeEncodeError):
        report.run("screen", [], dataclasses.replace(measured.desk, print_line=print_line))
    assert written == [1]


@pytest.fixture
def several(tmp_path) -> Bench:
    """An out folder with three plans, the second of which was planned last."""
    bench = make_bench(tmp_path / "repository")
    for name in ("one", "two", "three"):
        own = plan(settings(rows=(ROW,), name=name, published=None))
        file = lay(bench.out(""), own, records(own))
        if name != "three":
            select.use(Workspace(bench.out("")), file)
    return bench


def names_of(bench: Bench, **keys: str) -> list[str]:
    config = {"source": "out", "plan": "latest", "launcher": {"out": "out"}, **keys}
    return [part.plan.name for part in select.select("screen", config, bench.desk).parts]


def test_latest_is_the_plan_that_was_worked_on_last(several):
    assert names_of(several) == ["two"]
    (first,) = [one for one in select.plan_files(Workspace(several.out("")))[0] if one.plan.name == "one"]
    select.use(Workspace(several.out("")), first)
    assert names_of(several) == ["one"]


def test_a_screen_that_is_asked_for_again_becomes_the_latest(bench):
    for text in ("tokens=[1]", "tokens=[8]", "tokens=[1]"):
        run.plan("screen", ["screen=grid", text], bench.desk)
    config = {"source": "out", "plan": "latest", "launcher": {"out": "out"}}
    (part,) = select.select("screen", config, bench.desk).parts
    assert part.plan.settings.tokens == (1,)


def test_all_plans_stand_on_one_page_with_their_tables(several):
    assert sorted(names_of(several, plan="all")) == ["one", "three", "two"]
    found, text = says(several, report.run, "plan=all", "to=all.md")
    assert found == 0
    assert text.count("| simulated, us ") == 3
    assert (several.root / "all.md").read_text().startswith("# Screen ")


DAMAGE = {"empty": b"", "foreign": b"[1, 2]", "cut": None, "of another study": b'{"plan": {"study": "none"}}'}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_plan_file_that_cannot_be_read_is_named_and_the_others_work(several, kind):
    sound = sorted(several.out("plans").glob("p*.json"))
    content = DAMAGE[kind] if DAMAGE[kind] is not None else sound[0].read_bytes()[:300]
    (several.out("plans") / "p0000000000000000.json").write_bytes(content)
    assert len(names_of(several, plan="all")) == 3
    several.lines.clear()
    assert status.run([], several.desk) == 0
    assert "quarantined: p0000000000000000.json" in several.text


def test_a_plan_with_a_round_that_cannot_be_read_is_named_and_the_others_work(several):
    (path, *_) = sorted(several.out("plans").glob("p*.json"))
    path.with_suffix(".round1.json").write_bytes(b"")
    assert len(names_of(several, plan="all")) == 2
    assert status.run([], several.desk) == 0
    assert f"quarantined: {path.name}: plan {path.stem}.round1.json: expected a plan file" in several.text


def test_a_damaged_plan_is_planned_again_and_replaced(bench):
    run.plan("screen", ["screen=grid"], bench.desk)
    path = bench.plan_file.path
    sound = path.read_bytes()
    path.write_bytes(b"")
    run.plan("screen", ["screen=grid"], bench.desk)
    assert path.read_bytes() == sound


def test_damaged_files_are_named_on_the_page(several):
    (several.out("plans") / "p0000000000000000.json").write_bytes(b"")
    path = sorted(several.out("records").rglob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:99])
    text = says(several, report.run, "plan=all", "to=x.md")[1]
    assert "- quarantined: p0000000000000000.json: plan p0000000000000000.json: expected a plan file" in text
    assert f"- quarantined: {path.name}: " in text


def test_status_counts_what_is_recorded(measured):
    measured.lines.clear()
    assert status.run([], measured.desk) == 0
    (line,) = [line for line in measured.text.splitlines() if measured.plan_file.plan_hash in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:3] == ["screen", "grid"]
    assert cells[4:] == ["4", "0", "0", "0", "0"]  # ok, failed, void, missing, damaged files


def test_status_counts_what_is_missing(bench):
    own = plan(rows=(ROW,))
    lay(bench.out(""), own, records(own, end=lambda batch, trial: ("failed", "missing")[trial.arm]))
    assert status.run([], bench.desk) == 0
    (line,) = [line for line in bench.text.splitlines() if own.plan_hash in line]
    assert [cell.strip() for cell in line.strip("|").split("|")][4:] == ["0", "2", "0", "2", "0"]


def test_records_are_counted_by_table_backend_and_status(measured):
    measured.lines.clear()
    assert status.records([], measured.desk) == 0
    assert "| round_trips | sim     | ok     |    8 |" in measured.text


def test_trials_that_were_not_run_are_missing_of_every_round_that_is_written(several):
    (part, *_) = select.select("screen", {"source": "out", "launcher": {"out": "out"}}, several.desk).parts
    assert num_missing(part) == 0


def test_what_a_later_attempt_made_good_is_not_listed_as_void():
    void = dataclasses.replace(record(), status="void", reason="gone", latency_us=None, samples_us=None)
    first, other = [
        dataclasses.asdict(one) | {"table": one.table} for one in (void, dataclasses.replace(void, key="k2"))
    ]
    good = dataclasses.asdict(record(attempt=2, run="r2")) | {"table": void.table}

    def said(*rows):
        return not_ok(Results("screen", "main", (Part(None, Reading(rows)),)))

    assert said(first) == said(first, other, good) == "- void: 1 row: gone"
    assert said(first, good) == "Void, failed or missing: none."


def test_measured_plans_are_a_page_of_their_own_kind(bench):
    own = plan(rows=(ROW,), backend=on_gpus(FREE), published=None)
    lay(bench.out(""), own, records(own))
    assert says(bench, report.run)[0] == 0
    (page,) = bench.out("reports").rglob("report.md")
    assert page.read_text().startswith("# Measured round trips\n")


def test_a_page_of_archived_records_mirrors_them_and_that_of_others_lies_beside_them(measured, tmp_path):
    root = measured.root
    assert report.page_of(root / "records/screen/h200", measured.desk) == root / "reports/screen/h200.md"
    assert report.page_of(root / "records/a/b.parquet", measured.desk) == root / "reports/a/b.md"
    assert report.page_of(tmp_path / "h200", measured.desk) == tmp_path / "h200.md"
