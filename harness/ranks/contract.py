"""What the harness asks of a measured tree: build, identity, open, prove and time, under one number.

A tree says which contract it keeps by `afdep.CONTRACT`; one that says nothing is older than that and keeps the first.
Everything that measures arms of other revisions goes through here, so that those can still be measured.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CONTRACT = 2

_PLACES: dict[int, dict[str, str]] = {
    1: {
        "afdep": "afdep",
        "build": "afdep.build",
        "arms": "afdep.arms",
        "checks": "afdep.checks",
        "payload": "afdep.proof",
        "exchanges": "afdep.proof",
        "reference": "afdep.reference",
        "elements": "afdep.elements",
    },
    2: {
        "afdep": "afdep",
        "build": "afdep.build",
        "arms": "afdep.arms",
        "checks": "afdep.proof.checks",
        "payload": "afdep.proof.payload",
        "exchanges": "afdep.proof.exchanges",
        "reference": "afdep.reference",
        "elements": "afdep.elements",
    },
}
"""By contract, where a tree has what is asked for under a name."""


def number() -> int:
    """The contract of the tree that this process has loaded."""
    return int(getattr(import_module("afdep"), "CONTRACT", 1))


@cache
def modules() -> SimpleNamespace:
    """The loaded tree's modules under the names of `_PLACES`."""
    return SimpleNamespace(**{name: import_module(place) for name, place in _PLACES[number()].items()})


@cache
def on_gpus() -> SimpleNamespace:
    """Its modules for GPUs; they need torch."""
    return SimpleNamespace(cuda=import_module("afdep.cuda"), memory=import_module("afdep.cuda.memory"))


def load(backend: str) -> None:
    """Load whatever of the tree a process of a backend may come to need: names load their modules when first used."""
    assert getattr(modules().afdep, "Trace", modules)  # of recorded ids; trees of old have none
    if backend == "cuda":
        assert on_gpus().memory
        assert _buffer()
    else:
        assert modules().afdep.World


def native_digest(backend: str) -> str:
    """Of the sources that the loaded tree builds for a backend."""
    afdep = modules().afdep
    return str(afdep.native_digest() if number() == 1 else afdep.native_digest(backend))


def built(backend: str, library: Path | None = None) -> dict[str, Any]:
    """Build the loaded tree's library unless one is given; what a tree that can tell says of it."""
    build = modules().build
    path = library or (build.build() if backend == "sim" else build.build_cuda())
    if number() == 1:
        return {}
    sidecar = build.sidecar(path)
    return {"code_digest": sidecar.code_digest, "compiler": sidecar.compiler}


def identity(backend: str, arm: str, shape: dict[str, Any]) -> dict[str, Any]:
    """What the built library reports of an arm: digest, protocol and switches. It needs no GPU to say so."""
    if backend == "sim":
        report: dict[str, Any] = modules().afdep.World(**shape, arm=arm).identity
        return report
    info, parsed = modules().build.build_info(modules().build.build_cuda()), modules().arms.Arm.parse(arm)
    return {"digest": info["digest"], "protocol": parsed.protocol, "switches": parsed.switches}


def prove(world: Any, loads: list[Any], bucket: int, seed: int) -> None:
    """Prove simulated exchanges bit for bit. Raises MismatchError of the tree."""
    if number() == 1:
        world.prove_loads(loads, bucket, seed)
    else:
        modules().exchanges.prove(world, loads, bucket, seed)


def buffer(library: Path | None, **fields: Any) -> Any:
    """A Buffer on this rank's GPU; collective."""
    kind = _buffer()
    return kind(None, **fields, library=library) if library is not None else kind(None, **fields)


def _buffer() -> Any:
    cuda = on_gpus().cuda
    return cuda.DeviceBuffer if number() == 1 else cuda.Buffer
