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
from afdep.build import Fiber
from afdep.digest import native_digest
from afdep.errors import BuildError
from afdep.proof.hunt import run_seeds
from afdep.proof.scenario import Hunt
from afdep.sources import RECIPES
from afdep.tree import root
from harness.core import trees
from harness.core.process import in_words, last_line
from harness.studies.faults.mutants import Mutant
from harness.studies.faults.rounds import RACES
from harness.studies.faults.trials import EXACT, MUTANT_BY_NAME, NOTHING
from harness.study import Batch, Said, VoidError

_UNITS = ("afdep/csrc/sim_abi.cpp", "afdep/csrc/sim_buffers.cpp")
"""The units that kernels are compiled in; all others are compiled once for every fault."""
_RACE_SEEDS = 2
_RACE_FLAGS = ("-g", "-DSIMGPU_RACES")
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
    shipped = Mutant(NOTHING, "none", trial.arm, (), group.settings.shipped_seeds)
    mutant = MUTANT_BY_NAME.get(trial.control, shipped)
    try:
        tree = trees.copied(root(), group.folder, batch.edits)
        if mutant.finder == RACES:
            seeds, reason = _RACE_SEEDS, report(races(tree), mutant.arm, _RACE_SEEDS)
        else:
            seeds, reason = _hunted(mutant, built(tree, mutant.fiber) if batch.edits else build.build())
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        raise VoidError(f"{in_words(error)} {last_line(getattr(error, 'stderr', None) or '')}".strip()) from error
    found = {"ended": EXACT} if reason is None else {"ended": mutant.finder, "failed": reason}
    yield Said(0, {**found, "seeds": seeds, "digest": str(native_digest("sim", tree))})


def _hunted(mutant: Mutant, library: Path) -> tuple[int, str | None]:
    """Seeds until one fails, and how it fails."""
    shape = {} if mutant.tokens is None else {"capacity": mutant.tokens, "most_tokens": mutant.tokens}
    hunt = Hunt.small(mutant.arm, library=library, fiber=mutant.fiber, aborts=mutant.aborts, **shape)
    finding = next(run_seeds(hunt, range(mutant.budget)), None)
    return (mutant.budget, None) if finding is None else (finding.seed + 1, str(finding))


def built(tree: Path, fiber: Fiber = "warp") -> Path:
    """The native library of an edited tree, from the cache if it is there."""
    flags = ("-DSIMGPU_THREAD_FIBERS",) * (fiber == "thread")
    return _compiled(tree, f"mutant_{fiber}.so", _UNITS, *flags, "-shared", str(_engine(*flags)))


def races(tree: Path | None = None) -> Path:
    """The kernels of a tree compiled for the race checker, with an engine that is not: what both define is its."""
    flags = (*_RACE_FLAGS, "-shared", str(_engine(*_RACE_FLAGS)), "-fsanitize=thread")
    return _compiled(tree or root(), "races.so", _UNITS, *flags)


def report(library: Path, arm: str, seeds: int) -> str | None:
    """What the checker finds in the exchanges of some seeds, of one Buffer or two: a data race, or None.

    Raises:
        VoidError: it has not run to its end, and has found nothing.
    """
    runtime = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True)
    settings = {"LD_PRELOAD": runtime.stdout.strip(), "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
    setting = Path("/proc/sys/vm/mmap_rnd_bits")
    fixed = ["setarch", "-R"] if setting.exists() and int(setting.read_text()) > _MOST_RANDOM_BITS else []
    command = [*fixed, sys.executable, "-c", _PROGRAM, arm, str(seeds), str(library)]
    environ = os.environ | settings | {"PYTHONPATH": str(root())}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if (done.returncode, done.stdout.strip()) == (0, _CLEAN):
        return None
    if _WARNING not in done.stderr:
        received = last_line(done.stderr or done.stdout)
        raise VoidError(f"race checker: expected a data race or {_CLEAN!r}, received {received!r}")
    return "data race"


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
        shared = [flag for flag in RECIPES["sim"].flags if flag != "-shared"]
        command = [
            "g++",
            *shared,
            "-O1",
            *flags,
            f'-DAFDEP_NATIVE_DIGEST="{digest}"',
            *(str(tree / one) for one in units),
        ]
        subprocess.run([*command, "-o", str(unfinished)], check=True, capture_output=True, text=True)
        unfinished.replace(output)
    return output
