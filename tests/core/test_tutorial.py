"""The study that docs/tutorial.md builds works as it says, made of nothing but the page's text."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pandas
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
MOST_STATEMENTS = 80
SMALL = ("layouts=[1A1F]", "hidden=256", "num_experts=8", "exchange.top_k=2", "exchange.transport_sms=4")


def files_of_the_page():
    """By path what the page says a file holds: its fences in order."""
    found = defaultdict(list)
    for path, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, flags=re.M | re.S):
        found[path].append(text)
    return {path: "\n\n".join(parts) for path, parts in found.items()}


def statements(text):
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    return len([one for one in nodes if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))])


def test_the_page_holds_the_three_files_of_the_study():
    files = files_of_the_page()
    assert len(files) == 3
    for path, text in files.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path
    assert {path.as_posix() for path in study_files(ROOT)} == set(files)


def test_the_study_is_small():
    counted = sum(statements(text) for path, text in files_of_the_page().items() if path.endswith(".py"))
    assert 40 < counted <= MOST_STATEMENTS


def study_files(root):
    """Every file of a tree that is named for the study."""
    folders = [root / "harness" / "studies" / "empty_exchange", root / "conf" / "study"]
    paths = [path for folder in folders for path in folder.glob("*") if path.is_file()]
    return [path.relative_to(root) for path in paths if "empty" in path.as_posix()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The tree without the study, and then with what the page says."""
    root = tmp_path_factory.mktemp("tutorial") / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "afdep", "vendor", "conf", "harness"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(lambda one: (ROOT / one).is_file(), listed.splitlines()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    for path in study_files(root):
        (root / path).unlink()
    subprocess.run(["git", "init", "-q", root], check=True)
    unknown = command(root, "empty-exchange")
    assert unknown.returncode == 4
    assert "empty-exchange" in unknown.stderr
    for path, text in files_of_the_page().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def command(root, *words):
    environ = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "harness", *words], cwd=root, env=environ, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def measured(tree):
    """The tree behind a first run."""
    done = command(tree, "empty-exchange", *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\[./2\] 1A1F afdep: +\d+\.\d us", done.stdout)
    return tree


def test_a_second_run_measures_nothing(measured):
    again = command(measured, "empty-exchange", *SMALL)
    assert again.returncode == 0
    assert "nothing to measure" in again.stdout


def test_its_report_has_a_figure_of_every_arm(measured):
    assert command(measured, "empty-exchange", "report", "to=page.md").returncode == 0
    line = r"^\| p[0-9a-f]{16} \| 1A1F +\| simulated +\| +\d+\.\d \| +\d+\.\d \|$"
    assert re.search(line, (measured / "page.md").read_text(), flags=re.M)


def test_its_records_are_exported_with_units_in_their_names(measured):
    assert command(measured, "empty-exchange", "export", "file=rows.csv").returncode == 0
    rows = pandas.read_csv(measured / "rows.csv")
    assert set(rows.arm) == {"m2n", "afdep"}
    assert (rows.latency_us > 0).all()
    assert (rows.tokens == 0).all()


def test_its_records_are_archived_and_read_from_there(measured):
    assert command(measured, "empty-exchange", "archive", "name=mine").returncode == 0
    archived = command(measured, "empty-exchange", "report", "source=records/empty-exchange/mine", "to=archived.md")
    assert archived.returncode == 0, archived.stderr
    page, other = ((measured / name).read_text().splitlines() for name in ("page.md", "archived.md"))
    assert page[:6] == other[:6]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has GPUs")
def test_where_there_is_no_gpu_it_is_refused_with_the_reason(measured):
    done = command(measured, "empty-exchange", "backend=cuda", *SMALL)
    assert done.returncode == 4
    assert "backend: expected GPUs and torch for cuda" in done.stderr


def test_its_help_says_what_every_key_means(measured):
    shown = command(measured, "empty-exchange", "--help").stdout
    for key in ("layouts=", "arms=", "hidden=", "num_experts=", "backend.pairs=", "launcher.out="):
        assert key in shown
