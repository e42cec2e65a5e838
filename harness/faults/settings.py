"""What faults are played with: frozen, validated once at the edge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from afdep import Layout, routing
from afdep.shapes import ExchangeShape
from harness.errors import UsageError
from harness.faults.trials import Making, Shape, Trial
from harness.sections import MAX_SEED, section
from harness.words import as_count, as_distinct, as_kept_name, as_word_or_none

_HIDDEN_STEP = 1024
"""Rows of which the libraries' only reduction takes any number: see `harness.faults.trees`."""


@dataclass(frozen=True)
class FaultSettings:
    """Validated settings.

    Args:
        making: of the trials.
        timeout_s, stuck_s, limit_s: as in `harness.faults.on_gpus.Job`.
        shipped_seeds: hunted of each arm as it is shipped.
        to: a folder to be made for a node, or None.
        source: the file that a node left, or None.
        keep: name of the kept record, or None.
    """

    making: Making
    timeout_s: float
    stuck_s: float
    limit_s: float
    shipped_seeds: int
    to: Path | None
    source: Path | None
    keep: str | None


def fault_settings(config: Mapping[str, Any], repository: Path) -> FaultSettings:
    """Read a composed configuration.

    Raises:
        ValueReadError, ConfigError, UsageError, LayoutError, ShapeError, RoutingError: a value of no use.
    """
    times = ("timeout_s", "stuck_s", "limit_s")
    data = section(config, "faults", ("layouts", "shape", "rounds", "late_us", *times, "seed", "shipped_seeds"))
    layouts = tuple(str(Layout.parse(text)) for text in as_distinct("faults.layouts", data["layouts"]))
    making = Making(
        layouts=layouts,
        shape=_shape(data["shape"]),
        rounds=as_count("faults.rounds", data["rounds"], minimum=1),
        late_us=as_count("faults.late_us", data["late_us"], minimum=1),
        seed=as_count("faults.seed", data["seed"], minimum=0) % MAX_SEED,
    )
    for trial in making.trials():
        _check_exchanges(trial)
    keep = as_kept_name(config["keep"], "h200")
    timeout_s, stuck_s, limit_s = (_seconds(f"faults.{name}", data[name]) for name in times)
    shipped_seeds = as_count("faults.shipped_seeds", data["shipped_seeds"], minimum=1)
    to, source = (_path(name, config[name], repository) for name in ("to", "source"))
    if source is not None and not source.is_file():
        raise UsageError(f"source: expected a file, received {config['source']!r}.", "Give what ./faults has written.")
    return FaultSettings(making, timeout_s, stuck_s, limit_s, shipped_seeds, to, source, keep)


def _shape(told: Mapping[str, Any]) -> Shape:
    names = [one.name for one in fields(Shape)]
    shape = section({"faults.shape": told}, "faults.shape", names)
    read = Shape(**{name: as_count(f"faults.shape.{name}", shape[name], minimum=1) for name in names})
    if read.hidden % _HIDDEN_STEP:
        raise UsageError(
            f"faults.shape.hidden: expected a multiple of {_HIDDEN_STEP:,}, received {read.hidden}.",
            "The libraries hold one reduction, for such rows.",
        )
    return read


def _check_exchanges(trial: Trial) -> None:
    """Refuse what no node could play: there its trials would count as kernels that are not exact."""
    ExchangeShape(**trial.world_fields() | {"layout": Layout.parse(trial.layout)})
    routing.make("random", 0, trial.shape.num_experts, trial.shape.top_k, trial.seed)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"{name}: expected seconds, received {value!r}.", "Write a number above 0.")
    return float(value)


def _path(name: str, value: object, repository: Path) -> Path | None:
    word = as_word_or_none(name, value, "a path or none")
    return None if word is None else (repository / word).resolve()
