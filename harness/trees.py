"""Source trees in neutral places: a git revision or the working tree, exported to slot directories of equal length.

A slot is slot0 or slot1 inside a directory made exclusively for one run, so neither its name nor the text of any
override says which tree it holds. The running harness is laid over each export: all arms share one method.
"""

import io
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.screen_config import WORKING_TREE
from harness.errors import TreeError

EXPORTED = ("afdep", "vendor", "conf")


def exclusive_directory(parent: Path, stem: str) -> Path:
    """Make a directory that no other process has: `stem` and a random part; the parent is made if missing."""
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        path = parent / f"{stem}-{secrets.token_hex(6)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path


@dataclass(frozen=True)
class Slots:
    """The slot directories of one run, one per tree.

    Args:
        root: the run's own directory.
        num_trees: one or two.
    """

    root: Path
    num_trees: int

    def path(self, index: int) -> Path:
        return self.root / f"slot{index}"

    def swap(self) -> None:
        """Let the two trees change places: each is then at the path where the other was."""
        aside = self.root / "aside"
        self.path(0).rename(aside)
        self.path(1).rename(self.path(0))
        aside.rename(self.path(1))

    def remove(self) -> None:
        shutil.rmtree(self.root)


def export(repository: Path, names: Sequence[str], parent: Path) -> Slots:
    """Export trees into the slots of a new directory under `parent`.

    Args:
        repository: root of the git repository.
        names: one or two trees: a commit as `resolve` returns it, or `working`.
        parent: where the new directory goes.

    Raises:
        TreeError: git does not deliver the tree.
    """
    slots = Slots(exclusive_directory(parent, "run"), len(names))
    for index, name in enumerate(names):
        slot = slots.path(index)
        slot.mkdir()
        if name == WORKING_TREE:
            _export_working_tree(repository, slot)
        else:
            _export_commit(repository, name, slot)
        _lay_harness_over(slot)
    return slots


def resolve(repository: Path, name: str) -> str:
    """The commit of a revision; `working` stays itself.

    Raises:
        TreeError: no such revision, or no git repository.
    """
    if name == WORKING_TREE:
        return name
    return (
        _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", what=name)
        .decode()
        .strip()
    )


def _git(repository: Path, *arguments: str, what: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False)
    if done.returncode:
        last = next(reversed(done.stderr.decode(errors="replace").strip().splitlines()), "no such commit")
        raise TreeError(
            f"tree {what!r}: expected a git revision or {WORKING_TREE}, received: {last.rstrip('.')}.",
            f"See `git log --oneline` for revisions, and run inside the repository {repository.name}.",
        )
    return done.stdout


def _export_working_tree(repository: Path, slot: Path) -> None:
    """Tracked files as they are on disk, and untracked ones that are not ignored."""
    listing = _git(repository, "ls-files", "-coz", "--exclude-standard", "--", *EXPORTED, what=WORKING_TREE)
    for name in filter(None, listing.decode().split("\0")):
        source, target = repository / name, slot / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _export_commit(repository: Path, commit: str, slot: Path) -> None:
    listing = _git(repository, "ls-tree", "--name-only", commit, what=commit).decode().split()
    present = [root for root in EXPORTED if root in listing]
    archive = _git(repository, "archive", "--format=tar", commit, "--", *present, what=commit)
    with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
        stream.extractall(slot, filter="data")


def _lay_harness_over(slot: Path) -> None:
    running = Path(__file__).resolve().parent
    shutil.copytree(running, slot / "harness", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
