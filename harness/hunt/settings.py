"""What a hunt runs with: frozen, validated once at the edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afdep import Arm, Layout, controls
from afdep.build import Fiber, build
from afdep.proof.scenario import Hunt
from harness.errors import UsageError
from harness.words import as_choice, as_count, as_distinct, as_kept_name, as_word

ALL = "all"
_FIBERS: dict[str, Fiber] = {"warp": "warp", "thread": "thread"}
COUNTS = ("hidden", "experts_per_rank", "top_k", "capacity", "most_tokens", "transport_sms", "exchanges")
"""Fields of a Hunt that are plain numbers, each at least 1."""
SHARES = ("graphs", "buffers", "aborts")
"""Fields of a Hunt that are shares of its seeds."""


@dataclass(frozen=True)
class HuntSettings:
    """A validated hunt.

    Args:
        hunts: one for each arm, on the library built from this tree.
        seeds: run for each arm, in order.
        jobs: processes at a time.
        keep: name of the kept record, or None.
    """

    hunts: tuple[Hunt, ...]
    seeds: Sequence[int]
    jobs: int
    keep: str | None


def hunt_settings(config: Mapping[str, Any]) -> HuntSettings:
    """Read a composed configuration, and build the library that it hunts.

    Raises:
        ValueReadError, UsageError, LayoutError, ArmError, ControlError: a value of no use.
        BuildError: the library cannot be built.
    """
    arms = [Arm.parse(text).name for text in as_distinct("arm", config["arm"]["values"])]
    shared = _fields(config["hunt"])
    fiber = _FIBERS[as_choice("hunt.fiber", config["hunt"]["fiber"], _FIBERS)]
    library = build(fiber)
    hunts = tuple(Hunt(arm=arm, fiber=fiber, library=library, **shared) for arm in arms)
    keep = as_kept_name(config["keep"], "night")
    return HuntSettings(hunts, _seeds(config), as_count("jobs", config["jobs"], minimum=1), keep)


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: as_count(f"hunt.{name}", config[name], minimum=1) for name in COUNTS}
    layouts = tuple(str(Layout.parse(text)) for text in as_distinct("hunt.layouts", config["layouts"]))
    dtype = as_word("hunt.dtype", config["dtype"], "a dispatch dtype")
    shares = {name: _share(f"hunt.{name}", config[name]) for name in SHARES}
    return {**counts, **shares, "controls": _controls(config["controls"]), "layouts": layouts, "dtype": dtype}


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"{name}: expected a share, received {value!r}.", "Write a number from 0 to 1.")
    return float(value)


def _controls(value: object) -> tuple[str, ...]:
    if value == ALL:
        return controls.NAMES
    if value == []:
        return ()
    return tuple(name for name, _ in controls.canonical((str(name), 1) for name in as_distinct("hunt.controls", value)))


def _seeds(config: Mapping[str, Any]) -> Sequence[int]:
    if config["seeds"] is not None:
        return [as_count("seeds", seed, minimum=0) for seed in as_distinct("seeds", config["seeds"])]
    first = as_count("first_seed", config["first_seed"], minimum=0)
    return range(first, first + as_count("budget", config["budget"], minimum=1))
