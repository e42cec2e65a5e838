"""A failing seed made small: the least of each field of its hunt with which the seed still fails."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from afdep.errors import RoutingError, ShapeError
from afdep.proof.hunt import Finding, run_seed
from afdep.proof.scenario import Hunt, draw

_LAYOUTS = ("1A1F", "1A2F", "2A1F", "2A2F")
_LEAST_CAPACITY = 4


def minimise(hunt: Hunt, seed: int) -> tuple[Hunt, Finding]:
    """The hunt of the one scenario that a seed drew, made as small as it stays failing, and how it fails.

    One field at a time, its smallest value first, until no field can be smaller. Less work is another schedule, so a
    value may fail where a smaller one does not: what comes out is small, not the smallest.

    Raises:
        ValueError: the seed does not fail.
    """
    hunt = _fixed(hunt, seed)
    finding = run_seed(hunt, seed)
    if finding is None:
        raise ValueError(f"seed {seed}: expected one that fails, received one that does not.")
    while smaller := _step(hunt, seed):
        hunt, finding = smaller
    return hunt, finding


def _step(hunt: Hunt, seed: int) -> tuple[Hunt, Finding] | None:
    """The first smaller hunt that still fails, or None."""
    for name, values in _smaller(hunt):
        for value in values:
            smaller = replace(hunt, **{name: value})
            if finding := _run(smaller, seed):
                return smaller, finding
    return None


def _fixed(hunt: Hunt, seed: int) -> Hunt:
    """The hunt that draws nothing but this seed's scenario."""
    drawn = draw(hunt, seed)
    fields = {"arm": str(drawn.arm), "controls": (), "layouts": (str(drawn.layout),)}
    ways = {"graphs": float(drawn.replayed), "buffers": float(drawn.second is not None)} | {
        "aborts": float(drawn.abort is not None)
    }
    return replace(hunt, **fields, **ways)  # type: ignore[arg-type]


def _smaller(hunt: Hunt) -> Iterator[tuple[str, list[Any]]]:
    """Every field with the smaller values to try, smallest first."""
    yield "graphs", [0.0] if hunt.graphs else []
    yield "buffers", [0.0] if hunt.buffers else []
    yield "aborts", [0.0] if hunt.aborts else []
    yield "exchanges", list(range(1, hunt.exchanges))
    yield "layouts", [(layout,) for layout in _LAYOUTS if len(hunt.layouts) == 1 and layout < hunt.layouts[0]]
    yield "capacity", _halves(hunt.capacity, _LEAST_CAPACITY)
    yield "most_tokens", _halves(hunt.most_tokens, 1)
    yield "top_k", _halves(hunt.top_k, 1)
    yield "transport_sms", list(range(1, hunt.transport_sms))


def _halves(value: int, least: int) -> list[int]:
    halves = []
    while (value := value // 2) >= least:
        halves.append(value)
    return halves[::-1]


def _run(hunt: Hunt, seed: int) -> Finding | None:
    """How the seed fails; None where it does not, or where there is no such exchange."""
    try:
        return run_seed(hunt, seed)
    except (ShapeError, RoutingError):
        return None
