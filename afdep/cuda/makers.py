"""Which maker of windows serves a group: by where its ranks are, and by what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Maker = Literal["symmetric", "ipc"]
MAKERS: tuple[Maker, ...] = ("symmetric", "ipc")


@dataclass(frozen=True)
class Place:
    """Where a rank is: its host, and the GPU it uses there."""

    host: str
    gpu: str


def objection(maker: Maker, places: Sequence[Place]) -> str | None:
    """Why a maker cannot serve ranks at these places, None where it may."""
    if maker == "symmetric" and len(set(places)) < len(places):
        return "torch's rendezvous refuses ranks that share a GPU"
    if maker == "ipc" and len({place.host for place in places}) > 1:
        return "CUDA IPC does not leave a host"
    return None


def candidates(wanted: Maker | None, places: Sequence[Place]) -> list[Maker]:
    """The makers to try in turn: what was asked for first, then the others, those left out that cannot serve."""
    order = sorted(MAKERS, key=lambda maker: maker != wanted)
    return [maker for maker in order if objection(maker, places) is None]
