"""Faults on the simulator: seeds of the hunt until one fails, or what the happens-before checker says."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from afdep import build
from afdep.digest import native_digest
from afdep.errors import BuildError
from afdep.proof.hunt import run_seeds
from afdep.proof.scenario import Hunt
from afdep.sources import RECIPES
from afdep.tree import root
from harness.core import trees
from harness.core.process import in_words, last_line
from harness.studies.faults.mutants import Mutant
from harness.studies.faults.rounds import HUNT, RACES
from harness.studies.faults.trials import EXACT, MUTANTS, NOTHING
from harness.study import Batch, Said, VoidError

_UNITS = ("afdep/csrc/sim_abi.cpp", "afdep/csrc/sim_buffers.cpp")
"""The units that kernels are compiled in; all others are compiled once for every fault."""
_FLAGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "warp": ((), ()),
    "thread": (("-DSIMGPU_THREAD_FIBERS",), ()),
    "races": (("-g", "-DSIMGPU_RACES"), ("-fsanitize=thread",)),
}
"""Flags of all units, and of those with kernels alone: the engine is not checked, and what both define is its."""
_CLEAN, _WARNING = "clean", "WARNING: ThreadSanitizer: data race"
_MOST_RANDOM_BITS = 28
"""Shadow memory has its place: where mappings are spread wider than this, the checker does not start."""

_PROGRAM = """
import sys
from pathlib import Path
from afdep import World, proof
from afdep.proof.hunt import small_machine
from afdep.proof.interleaving import prove_interleaved
from afdep.proof.scenario import Hunt, draw
arm, seeds, library = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
hunt = Hunt.small(arm, graphs=0.0, buffers=0.5)
for seed in range(seeds):
    drawn = draw(hunt, seed)
    experts = hunt.experts_per_rank * drawn.layout.ffn_ranks
    shape = {"hidden": hunt.hidden, "num_experts": experts, "top_k": hunt.top_k, "capacity": hunt.capacity}
    more = {"transport_sms": hunt.transport_sms, "machine": small_machine(), "library": library}
    world = World(drawn.layout, arm=arm, **shape, **more)
    if (second := drawn.second) is None:
        proof.prove(world, drawn.rounds[0], hunt.capacity, seed)
        continue
    other = world.add_buffers(hidden=second.hidden, top_k=second.top_k, capacity=second.capacity)
    prove_interleaved([world, other], [drawn.rounds[0], second.loads], second.order, seed)
print("clean")
"""


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Look for the fault of the one trial of a batch.

    Raises:
        VoidError: this machine cannot build or check it.
    """
    (trial,) = batch.trials
    mutant = MUTANTS.get(trial.control) or Mutant(NOTHING, "none", trial.arm, (), group.settings.shipped_seeds)
    try:
        tree = trees.copied(root(), group.folder, batch.edits)
        kind = "races" if mutant.finder == RACES else str(dict(mutant.hunt).get("fiber", "warp"))
        library = built(tree, kind) if batch.edits else build.build()
        seeds, reason = {HUNT: _hunted, RACES: raced}[mutant.finder](mutant, library)
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        raise VoidError(f"{in_words(error)} {last_line(getattr(error, 'stderr', None) or '')}".strip()) from error
    found = {"ended": EXACT} if reason is None else {"ended": mutant.finder, "failed": reason}
    yield Said(0, {**found, "seeds": seeds, "digest": str(native_digest("sim", tree))})


def _hunted(mutant: Mutant, library: Path) -> tuple[int, str | None]:
    """Seeds until one fails, and how it fails."""
    hunt = Hunt.small(mutant.arm, library=library, **dict(mutant.hunt))
    finding = next(run_seeds(hunt, range(mutant.budget)), None)
    return (mutant.budget, None) if finding is None else (finding.seed + 1, str(finding))


def built(tree: Path, kind: str = "warp") -> Path:
    """The native library of an edited tree, from the cache if it is there.

    Args:
        tree: a copy of this process's.
        kind: of its fibers, warp or thread; or races, for the race checker.
    """
    flags, of_kernels = _FLAGS[kind]
    return _compiled(tree, f"mutant_{kind}.so", _UNITS, *flags, "-shared", str(_engine(*flags)), *of_kernels)


def raced(mutant: Mutant, library: Path) -> tuple[int, str | None]:
    """What the checker finds in the exchanges of some seeds, of one Buffer or two.

    Returns:
        How many seeds, and that there is a data race, or None.

    Raises:
        VoidError: it has not run to its end, and has found nothing.
    """
    runtime = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True)
    setting = Path("/proc/sys/vm/mmap_rnd_bits")
    fixed = ["setarch", "-R"] if setting.exists() and int(setting.read_text()) > _MOST_RANDOM_BITS else []
    environ = {
        **os.environ,
        "LD_PRELOAD": runtime.stdout.strip(),
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
        "PYTHONPATH": str(root()),
    }
    command = [*fixed, sys.executable, "-c", _PROGRAM, mutant.arm, str(mutant.budget), str(library)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if (done.returncode, done.stdout.strip()) == (0, _CLEAN):
        return mutant.budget, None
    if _WARNING not in done.stderr:
        received = last_line(done.stderr or done.stdout)
        raise VoidError(f"race checker: expected a data race or {_CLEAN!r}, received {received!r}")
    return mutant.budget, "data race"


@cache
def _engine(*flags: str) -> Path:
    """The units that no fault is in, compiled once for all faults."""
    units = [unit for unit in RECIPES["sim"].units if unit not in _UNITS]
    return _compiled(root(), f"mutant_engine{''.join(flags)}.o", units, *flags, "-r", "-nostdlib")


def _compiled(tree: Path, name: str, units: Sequence[str], *flags: str) -> Path:
    """Units of a tree, compiled with the flags of the simulator's library into a file that is renamed into place."""
    digest = native_digest("sim", tree)
    output = build.cache_folder() / str(digest) / name
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        unfinished = output.with_suffix(f".{uuid4().hex}")
        command = [
            "g++",
            *(flag for flag in RECIPES["sim"].flags if flag != "-shared"),
            "-O1",
            *flags,
            f'-DAFDEP_NATIVE_DIGEST="{digest}"',
            *(str(tree / one) for one in units),
            "-o",
            str(unfinished),
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)
        unfinished.replace(output)
    return output
