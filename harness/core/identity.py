"""What decides a figure, by name: arms as the loaded library reports them, and digests of the sources behind them.

| digest | of |
|---|---|
| native `n` | the native sources that a target's compiler reads (`afdep.digest`) |
| code `c` | what the compiler made of them (`afdep.build`) |
| library `t` | the Python files of `afdep` that a measuring process loads |
| measuring `m` | the Python files of the harness that driver, workers and ranks load |
| machine `k` | the constants of the simulated machine |
"""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXTERNAL = "external"
"""What stands in a plan for the digest of an arm that no tree builds; its records name the library and its version."""


@dataclass(frozen=True)
class Identity:
    """One arm's identity; two arms of one identity measure one thing twice.

    Args:
        digest: native digest of the sources the library was built from.
        protocol: the kernels it runs.
        switches: controls that it runs with, by name.
    """

    digest: str
    protocol: str
    switches: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> "Identity":
        """Read what a library reports; its switches are a mapping or pairs of those that differ from their default."""
        pairs = dict(report["switches"])
        switches = tuple(sorted((str(name), int(value)) for name, value in pairs.items()))
        return cls(str(report["digest"]), str(report["protocol"]), switches)

    def switches_text(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.switches)

    def difference(self, loaded: "Identity") -> str | None:
        """The first field in which the loaded identity differs from this planned one; None if none does."""
        names = ("digest", "protocol", "switches")
        for name in names[self.digest == EXTERNAL :]:
            expected, received = getattr(self, name), getattr(loaded, name)
            if expected != received:
                return f"{name}: the plan expects {expected or 'none'}, the loaded library reports {received or 'none'}"
        return None


@dataclass(frozen=True)
class Library:
    """A library that was built of an edited tree.

    Args:
        path: absolute.
        digest: native digest that it must report.
    """

    path: str
    digest: str


@dataclass(frozen=True)
class Sources:
    """The Python files that a measuring process may load, relative to its slot."""

    library: tuple[str, ...]
    measuring: tuple[str, ...]

    def library_digest(self, slot: Path) -> str:
        return files_digest("t", slot, self.library)

    def measuring_digest(self, slot: Path) -> str:
        return files_digest("m", slot, self.measuring)

    def outside(self, slot: Path) -> list[str]:
        """Files of ours that this process has loaded although they are in neither set."""
        return sorted({*loaded("afdep", slot), *loaded("harness", slot)} - {*self.library, *self.measuring})


def loaded(package: str, slot: Path) -> list[str]:
    """The files of a package that this process has loaded, relative to the slot that holds them."""
    modules = [one for name, one in list(sys.modules.items()) if name.partition(".")[0] == package]
    paths = [Path(str(one.__file__)).resolve() for one in modules if getattr(one, "__file__", None)]
    return sorted({path.relative_to(slot).as_posix() if path.is_relative_to(slot) else str(path) for path in paths})


def files_digest(letter: str, root: Path, names: Iterable[str]) -> str:
    """A letter and 16 hexadecimal digits over names and contents of files; a missing one has no content."""
    digest = hashlib.sha256()
    for name in sorted(names):
        path = root / name
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        digest.update(f"{name}\0{content}\n".encode())
    return letter + digest.hexdigest()[:16]
