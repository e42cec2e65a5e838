"""The harness is one of everything, small enough to read, and its imports never climb."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo.test_rooms import Graph, circles, imported

MOST_STATEMENTS, MOST_FILES = 7500, 120
LAYERS: tuple[tuple[str, str], ...] = (
    ("records", r"records(\..*)?"),
    ("errors", r"errors"),
    ("study, machine", r"study|studies|machine(\..*)?"),
    ("core", r"core(\..*)?"),
    ("ranks", r"ranks(\..*)?"),
    ("programs", r"studies\.\w+\.(?!report|settings|tables|plots|findings|archived|sections|targets)\w+"),
    ("report", r"report(\..*)?"),
    ("reports of studies", r"studies\.\w+\.\w+"),
    ("config", r"config(\..*)?"),
    ("desk", r"desk(\..*)?|studies\.\w+\.settings"),
    ("command line", r"|cli|__main__"),
)
"""From the bottom to the top. How a study reads its configuration is a matter of the desk."""
PROCESSES = {
    "__main__": "the commands",
    "core.planning": "what a tree is",
    "core.worker": "the ranks of every study",
    "core.node": "a bundle's plans",
    "machine.keeper": "ends what a dead run has left",
}


def modules(root: Path) -> dict[str, Path]:
    found = {}
    for file in sorted((root / "harness").rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def graph_of(root: Path) -> Graph:
    known = modules(root)
    return {name: set(imported(name, file, set(known))) for name, file in known.items()}


def layer(module: str) -> int:
    name = module.removeprefix("harness").removeprefix(".")
    found = [index for index, (_, pattern) in enumerate(LAYERS) if re.fullmatch(pattern, name)]
    assert found, f"{module} is of no layer"
    return found[-1] if name.endswith(".settings") else found[0]


def climbing(graph: Graph) -> list[str]:
    return [f"{one} imports {other}" for one, others in graph.items() for other in others if layer(other) > layer(one)]


def statements(text: str) -> int:
    """Statements of a module, docstrings apart."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return sum(not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)) for one in nodes)


def defined(root: Path, kind: type[ast.AST], accepted: Callable[[ast.AST], bool]) -> set[str]:
    """Module and name of every function or class of the harness that is accepted."""
    return {
        f"{name.removeprefix('harness.')}.{node.name}"  # type: ignore[attr-defined]
        for name, file in modules(root).items()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, kind) and accepted(node)
    }


def bases(node: ast.AST) -> set[str]:
    assert isinstance(node, ast.ClassDef)
    return {ast.unparse(one).rpartition(".")[2] for one in node.bases}


def test_its_statements_and_files_are_counted(root: Path) -> None:
    counted = sum(statements(file.read_text("utf-8")) for file in modules(root).values())
    assert 3000 < counted <= MOST_STATEMENTS
    assert 50 < len(modules(root)) <= MOST_FILES


def test_a_docstring_is_no_statement() -> None:
    assert statements('"""Title."""\n\ndef f():\n    """Words."""\n    return 1\n') == 2


def test_no_import_climbs(root: Path) -> None:
    assert climbing(graph_of(root)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("harness.records.table", "harness.errors"),
        ("harness.core.worker", "harness.desk.run"),
        ("harness.core.plan", "harness.ranks.cells"),
        ("harness.studies.screen.program", "harness.report.page"),
        ("harness.ranks.exchanges", "harness.studies.screen.program"),
        ("harness.report.page", "harness.studies.screen.report"),
        ("harness.studies.screen.report", "harness.desk.desk"),
        ("harness.config.read", "harness.studies.screen.settings"),
    ],
)
def test_an_import_that_climbs_is_noticed(one: str, other: str) -> None:
    assert climbing({one: {other}}) == [f"{one} imports {other}"]
    assert climbing({other: {one}}) == []


def test_there_is_no_circle(root: Path) -> None:
    assert circles(graph_of(root)) == []


def test_every_error_has_one_base(root: Path) -> None:
    plain = defined(root, ast.ClassDef, lambda node: bool(bases(node) & {"Exception", "BaseException"}))
    assert plain == {"records.errors.HarnessError", "study.VoidError", "core.process.Interrupted"}
    ours = defined(root, ast.ClassDef, lambda node: node.name.endswith("Error") and not bases(node) & {"HarnessError"})  # type: ignore[attr-defined]
    assert ours == {"records.errors.HarnessError", "study.VoidError"}


def test_one_program_runs_the_ranks_of_every_study(root: Path) -> None:
    started = {
        name.removeprefix("harness.")
        for name, file in modules(root).items()
        if 'if __name__ == "__main__":' in file.read_text("utf-8")
    }
    assert started == set(PROCESSES)


def test_there_is_one_journal_one_envelope_and_one_plan(root: Path) -> None:
    pattern = re.compile(r".*Journal|(?!Archived).*Plan|Ledger|Executor")
    named = defined(root, ast.ClassDef, lambda node: pattern.fullmatch(node.name) is not None)  # type: ignore[attr-defined]
    assert named == {"core.journal.Journal", "core.plan.Plan", "core.ledger.Ledger", "core.executor.Executor"}
    assert defined(root, ast.ClassDef, lambda node: "Row" in bases(node)) == {"records.envelope.Envelope"}


def test_no_table_has_a_writer_or_a_reader_of_its_own(root: Path) -> None:
    pattern = re.compile(r"(write|read)_\w+")
    assert defined(root, ast.FunctionDef, lambda node: pattern.fullmatch(node.name) is not None) == set()  # type: ignore[attr-defined]


def test_a_second_one_of_a_kind_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "new.py").write_text("class HuntJournal:\n    pass\n\n\ndef write_hunts():\n    pass\n")
    assert defined(tmp_path, ast.ClassDef, lambda node: "Journal" in node.name) == {"new.HuntJournal"}  # type: ignore[attr-defined]
    assert defined(tmp_path, ast.FunctionDef, lambda node: "write_" in node.name) == {"new.write_hunts"}  # type: ignore[attr-defined]
