"""The kernels under a happens-before checker: a library compiled for it, and what it says of some exchanges."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from afdep import build
from afdep.digest import native_digest
from afdep.sources import RECIPES
from afdep.tree import root
from harness.faults.plant import KERNEL_UNITS, compile_units

CLEAN = "clean"
FLAGS = ("-g", "-DSIMGPU_RACES")
# Shadow memory has its place: where mappings are spread wider than this, the checker does not start.
MOST_RANDOM_BITS = 28

PROGRAM = """
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


def library(tree: Path | None = None) -> Path:
    """The kernels of a tree compiled for the checker, with an engine that is not; from the cache if it is there."""
    tree = tree or root()
    path = build.cache_folder() / str(native_digest("sim", tree)) / "races.so"
    if not path.exists():
        units = [str(tree / unit) for unit in KERNEL_UNITS]
        digest = f'-DAFDEP_NATIVE_DIGEST="{native_digest("sim", tree)}"'
        # The engine comes first: what both define is taken from it.
        compile_units(path, "warp", "-shared", *FLAGS, str(_engine()), "-fsanitize=thread", digest, *units)
    return path


def report(path: Path, arm: str, seeds: int) -> str:
    """What the checker says of the exchanges of some seeds, of one Buffer or two; "clean" where it says nothing."""
    runtime = subprocess.run(
        ["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    settings = {"LD_PRELOAD": runtime, "TSAN_OPTIONS": "ignore_noninstrumented_modules=1", "PYTHONPATH": str(root())}
    command = [*_placement(), sys.executable, "-c", PROGRAM, arm, str(seeds), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings, check=False)
    return CLEAN if (done.returncode, done.stdout.strip()) == (0, CLEAN) else done.stderr


@cache
def _engine() -> Path:
    whole = build.cache_folder() / str(native_digest("sim")) / "races_engine.o"
    if not whole.exists():
        units = [str(root() / unit) for unit in RECIPES["sim"].units if unit not in KERNEL_UNITS]
        compile_units(whole, "warp", "-r", "-nostdlib", *FLAGS, *units)
    return whole


def _placement() -> list[str]:
    setting = Path("/proc/sys/vm/mmap_rnd_bits")
    return ["setarch", "-R"] if setting.exists() and int(setting.read_text()) > MOST_RANDOM_BITS else []
