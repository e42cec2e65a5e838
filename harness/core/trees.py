"""Source trees in neutral places: a git revision, the working tree or an installed one, exported to slots and edited.

A slot is slot0 or slot1 inside a folder made exclusively for one run, so neither its name nor the text of any override
says which tree it holds. The running harness is laid over each export: all arms share one method. Exported bytes are
those of the blobs, whatever git is configured to make of them, and compiled files never travel.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import afdep
from afdep import build, native_digest
from harness.core.codec import encode, short_hash
from harness.core.identity import Library
from harness.errors import TreeError
from harness.study import Edit

WORKING, INSTALLED = "working", "installed"
EXPORTED = ("afdep", "vendor", "conf")
NATIVE = ("vendor", "afdep")
"""What a native library is built from."""
LAID_OVER = ("harness", "conf/machine")
_COMPILED = (".pyc", ".pyo", ".so", ".o")


def exclusive_directory(parent: Path, stem: str) -> Path:
    """Make a directory that no other process has: `stem` and a random part; the parent is made if missing."""
    path = parent / f"{stem}-{secrets.token_hex(6)}"
    path.mkdir(parents=True)
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

    def of(self, tree: int, swapped: bool) -> Path:
        """Where a tree is while the two have, or have not, changed places."""
        return self.path(self.num_trees - 1 - tree if swapped else tree).resolve()

    def swap(self) -> None:
        """Let the two trees change places: each is then at the path where the other was."""
        aside = self.root / "aside"
        self.path(0).rename(aside)
        self.path(1).rename(self.path(0))
        aside.rename(self.path(1))

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def export(repository: Path, names: Sequence[str], parent: Path, more: Sequence[str] = ()) -> Slots:
    """Export trees into the slots of a new directory under `parent`.

    Args:
        repository: root of the git repository, or of an installed tree.
        names: one or two trees, as `resolve` returns them.
        parent: where the new directory goes.
        more: files and folders that a study needs beside those that all have.

    Raises:
        TreeError: git does not deliver the tree, or it holds what cannot be exported.
    """
    slots = Slots(exclusive_directory(parent, "run"), len(names))
    try:
        for index, name in enumerate(names):
            _export(repository, name, slots.path(index), (*EXPORTED, *more))
            _lay_harness_over(slots.path(index))
    except BaseException:
        slots.remove()
        raise
    return slots


def _export(repository: Path, name: str, slot: Path, parts: Sequence[str]) -> None:
    if name == WORKING:
        contents = _working_tree(repository, parts)
    elif name.startswith(INSTALLED):
        contents = _installed(repository, parts)
    else:
        contents = _commit(repository, name, parts)
    for path, content in contents.items():
        if not path.endswith(_COMPILED):
            target = slot / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def resolve(repository: Path, name: str) -> str:
    """The commit of a revision; `working` stays itself, and is `installed VERSION` where there is no repository.

    Raises:
        TreeError: no such revision, or no git repository.
    """
    if name == WORKING:
        if (repository / ".git").exists():
            return name
        from importlib.metadata import version

        return f"{INSTALLED} {version('afdep-comm')}"
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", what=name)
    return found.decode().strip()


def library(slot: Path, edits: Sequence[Edit]) -> Library:
    """The CUDA library of a tree with some edits: carried, cached, or built now.

    Raises:
        TreeError: an edit that finds no place.
        BuildError: it does not build.
    """
    digest = str(native_digest("cuda", slot, edited(slot, edits)))
    if (place := carried(slot, edits)).exists():
        return Library(str(place), digest)
    with tempfile.TemporaryDirectory(prefix="edited-", dir=slot.parent) as name:
        return Library(str(build.build_cuda(copied(slot, Path(name), edits))), digest)


def carried(slot: Path, edits: Sequence[Edit]) -> Path:
    """Where a tree that travels has the CUDA library of its edited sources."""
    return slot / "native" / short_hash("e", encode(edits)) / "libafdep_cuda.so"


def copied(slot: Path, folder: Path, edits: Sequence[Edit]) -> Path:
    """A copy of a tree's native sources and its Python package with some edits, in a new folder below `folder`."""
    tree = folder / "tree"
    for part in NATIVE:
        shutil.copytree(slot / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    edit(tree, edits)
    return tree


def edit(slot: Path, edits: Sequence[Edit]) -> None:
    """Apply edits to a copy of a tree.

    Raises:
        TreeError: as `edited`; nothing is changed.
    """
    for file, text in edited(slot, edits).items():
        (slot / file).write_text(text, encoding="utf-8")


def edited(slot: Path, edits: Sequence[Edit]) -> dict[str, str]:
    """The files that edits change, with their texts behind them; each edit finds what those before it left.

    Raises:
        TreeError: a text that is to be replaced is not there exactly once.
    """
    texts: dict[str, str] = {}
    for one in edits:
        path = slot / one.file
        text = texts.get(one.file, path.read_text(encoding="utf-8") if path.exists() else "")
        if one.shipped and text.count(one.shipped) != 1:
            raise TreeError(
                f"{one.file}: expected {one.shipped!r} once, received it {text.count(one.shipped)} times.",
                "Bring the edit up to the tree: it names a place of the sources.",
            )
        texts[one.file] = text.replace(one.shipped, one.instead) if one.shipped else text + one.instead
    return texts


def _git(repository: Path, *arguments: str, what: str, text: bytes | None = None) -> bytes:
    """What git says, without the user's variables and configuration: they would make another tree of it."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    none = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ("-c", "core.autocrlf=false", "-c", f"safe.directory={repository}", "-c", "core.quotepath=false")
    command = ["git", *settings, "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=ours | none, input=text)
    if done.returncode:
        last = next(reversed(done.stderr.decode(errors="replace").strip().splitlines()), "no such commit")
        raise TreeError(
            f"tree {what!r}: expected a git revision or {WORKING}, received: {last.rstrip('.')}.",
            f"See `git log --oneline` for revisions, and run inside the repository {repository.name}.",
        )
    return done.stdout


def _working_tree(repository: Path, parts: Sequence[str]) -> dict[str, bytes]:
    """Tracked files as they are on disk, and untracked ones that are not ignored."""
    listing = _git(repository, "ls-files", "-coz", "--exclude-standard", "--", *parts, what=WORKING)
    found = {}
    for name in filter(None, listing.decode().split("\0")):
        source = repository / name
        if source.is_file():
            found[name] = source.read_bytes()
        elif source.is_symlink() or source.is_dir():
            raise _not_exported(WORKING, name, "a link that leads nowhere" if source.is_symlink() else "a repository")
    return found


def _installed(root: Path, parts: Sequence[str]) -> dict[str, bytes]:
    """The package, and what it carries under the names of a checkout."""
    package, found = Path(afdep.__file__).resolve().parent, {}
    for base, part in (*((root, part) for part in parts), (package.parent, package.name)):
        for path in (base / part).rglob("*"):
            if path.is_file() and (base == root or not path.is_relative_to(root)):
                found[path.relative_to(base).as_posix()] = path.read_bytes()
    return found


def _commit(repository: Path, commit: str, parts: Sequence[str]) -> dict[str, bytes]:
    """Every blob of a commit by its path."""
    listing = _git(repository, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *parts, what=commit)
    entries = [entry.split("\t", 1) for entry in filter(None, listing.decode().split("\0"))]
    for told, name in entries:
        if told.split()[0] not in ("100644", "100755"):
            raise _not_exported(commit, name, "a link or a repository")
    hashes = "".join(f"{told.split()[2]}\n" for told, _ in entries)
    stream = _git(repository, "cat-file", "--batch", what=commit, text=hashes.encode())
    found, position = {}, 0
    for _, name in entries:
        end = stream.index(b"\n", position)
        size = int(stream[position:end].split()[2])
        found[name] = stream[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return found


def _not_exported(tree: str, name: str, received: str) -> TreeError:
    return TreeError(
        f"tree {tree!r}: expected files alone, received {received}: {name}.",
        "Take it out of the tree, or ignore it: a slot would lack what a process reads there.",
    )


def _lay_harness_over(slot: Path) -> None:
    from afdep.tree import root  # of the running tree, which has it; the measured one may be older

    running = {"harness": Path(__file__).resolve().parents[2], "conf/machine": root()}
    ignored = shutil.ignore_patterns("__pycache__", *(f"*{suffix}" for suffix in _COMPILED))
    for part in LAID_OVER:
        shutil.copytree(running[part] / part, slot / part, ignore=ignored, dirs_exist_ok=True)
