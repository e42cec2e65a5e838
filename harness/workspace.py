"""The folders of the harness: the repository it runs in, and everything it writes under the out folder."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ReportError, UsageError, WorkspaceError

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Workspace:
    """The out folder.

    Args:
        out: absolute path.
    """

    out: Path

    @classmethod
    def under(cls, out: str, repository: Path = REPOSITORY) -> "Workspace":
        """The out folder of a launcher: relative paths start at the repository.

        Raises:
            WorkspaceError: a file stands where the folder, or one above it, must be.
        """
        path = (repository / out).resolve()
        nearest = next(one for one in (path, *path.parents) if one.exists())
        if not nearest.is_dir():
            raise WorkspaceError(
                f"out folder {out}: expected a folder, received the file {nearest}.",
                "Move the file away, or write launcher.out=FOLDER.",
            )
        return cls(path)

    @property
    def plans(self) -> Path:
        return self.out / "plans"

    @property
    def trees(self) -> Path:
        return self.out / "trees"

    @property
    def scratch(self) -> Path:
        return self.out / "scratch"

    @property
    def hunts(self) -> Path:
        return self.out / "hunts"

    @property
    def reports(self) -> Path:
        return self.out / "reports"

    def plan(self, plan_hash: str) -> Path:
        return self.plans / f"{plan_hash}.json"

    def records(self, plan_hash: str) -> Path:
        return self.out / "records" / plan_hash

    def plan_files(self) -> list[Path]:
        """Every plan here, in order of name.

        Raises:
            ReportError: there is none.
        """
        found = sorted(path for path in self.plans.glob("*.json") if not path.name.startswith("."))
        if not found:
            raise ReportError(
                f"plans under {self.out.name}: expected at least one, received none.", "Run the verb screen first."
            )
        return found


def displayed(path: Path, repository: Path) -> str:
    """A path as it is printed: from the repository on where it lies below, else in full."""
    return str(path.relative_to(repository)) if path.is_relative_to(repository) else str(path)


def write_page(path: Path, text: str) -> Path:
    """Write a page, over the one that was there; folders are made where they are missing.

    Returns:
        The path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def keep_copy(record: Path, kept: Path) -> Path:
    """Copy a record to where `kept_path` puts it.

    Returns:
        The copy.
    """
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(record, kept)
    return kept


def kept_path(kind: str, name: str | None, repository: Path, suffix: str = ".parquet") -> Path | None:
    """Where `keep=NAME` puts a record, under records/KIND; None where nothing is kept.

    Raises:
        UsageError: a record of that name is there.
    """
    if name is None:
        return None
    path = repository / "records" / kind / f"{name}{suffix}"
    if path.exists():
        raise UsageError(
            f"keep: expected a new name, received {name!r}, which is there.", "Records stay: choose another."
        )
    return path
