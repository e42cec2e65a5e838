"""From composed configuration to what a fit is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from afdep import Machine
from harness.config.compose import compose
from harness.config.read import NONE, read, word
from harness.core.fields import Count, Dtype, LayoutName, Number
from harness.core.planning import Wanted
from harness.core.trees import WORKING
from harness.desk import select
from harness.desk.desk import Desk
from harness.errors import ConfigError, UsageError, valid_names
from harness.studies.calibrate.report import MEASURED_HERE
from harness.studies.calibrate.rules import RULE_OF
from harness.studies.fit.fit import (
    FILE,
    FITTED,
    LEFT_OUT,
    MEASURED,
    NO_EFFECT,
    Cell,
    Constant,
    Search,
    Series,
    Settings,
)
from harness.studies.fit.targets import Target, of_devices, of_table
from harness.studies.screen import settings as screen_settings
from harness.study import Asked

FOREIGN = ("screen", "exchange", "backend", "layout", "hidden", "dtype", "routing", "tokens", "arm")
"""Keys of published figures: beside measured ones the plans of their records say all of it."""


@dataclass(frozen=True)
class Bounds:
    """Of a fitted constant, in its unit."""

    lower: Number
    upper: Number


@dataclass(frozen=True)
class Named:
    """A row as conf/fit names it."""

    layout: LayoutName
    hidden: Count
    dtype: Dtype
    routing: str
    transport_sms: Count | None = None

    def names(self, series: Series) -> bool:
        own = {**vars(series.row), **vars(series.exchange)}
        return all(own[name] == held for name, held in vars(self).items() if held is not None)


@dataclass(frozen=True, kw_only=True)
class Told(Search):
    """What conf/fit holds: how to search, and what for.

    Args:
        rows: that are fitted on.
        constants: bounds of what may be fitted.
        no_effect: reasons by constant of which no slope is taken.
        partly_measured: reasons by constant that is fitted although a micro-benchmark gave it.
        left_out: reasons by constant that nothing gave and that is not fitted; none: nobody asks.
    """

    rows: tuple[Named, ...]
    constants: Mapping[str, Bounds]
    no_effect: Mapping[str, str] | None = None
    partly_measured: Mapping[str, str] | None = None
    left_out: Mapping[str, str] | None = None


SECTIONS = {**screen_settings.SECTIONS, "fit": Told}


def wanted(config: Mapping[str, Any], desk: Desk) -> Wanted:
    """Read a composed configuration, and the figures that it names.

    Raises:
        HarnessError, AfdepError: a value of no use, or figures that nothing can be fitted to.
    """
    told = read(Told, config["fit"], "fit")
    series, cells, source = {"published": _published, "measured": _measured}[told.target](config, told, desk)
    machine = Machine.load(told.machine, desk.conf / "machine")
    constants = _constants(told, machine)
    settings = Settings(
        **{one.name: getattr(told, one.name) for one in fields(Search)},
        series=series,
        cells=_marked(told, series, cells),
        constants=constants,
        free=tuple(name for name in told.constants if name in [one.name for one in constants if one.kind == FITTED]),
        source=source,
    )
    shape = {"layout": series[0].row.layout, **series[0].exchange.shape_of(series[0].row), "machine": machine.name}
    return Wanted("fit", machine.name, settings, arms=tuple(Asked(arm, 0, "sim", shape) for arm in told.arms))


def _published(config: Mapping[str, Any], told: Told, desk: Desk) -> Target:
    if (config["source"], config["digest"]) != (NONE, select.ANY):
        raise UsageError(
            "source: expected none beside published figures, received one.", "Write fit=measured for measured ones."
        )
    usual = {"trees": {"baseline": WORKING, "candidate": WORKING}, "trace": NONE}
    screen = screen_settings.wanted({**config, **usual}, desk).settings
    if len(screen.arms) != 2 or screen.backend.name != "sim" or screen.published is None:
        received = f"{len(screen.arms)} arms on {screen.backend.name} beside {screen.published or 'none'}"
        raise ConfigError(
            f"fit: expected two arms on the simulator beside a published table, received {received}.",
            "Leave arm and backend out, and choose screen=table.",
        )
    return of_table(screen, desk.root / "records" / "published")


def _measured(config: Mapping[str, Any], told: Told, desk: Desk) -> Target:
    usual = compose("study/fit", (), desk.conf)
    for key in (key for key in FOREIGN if config.get(key) != usual.get(key)):
        raise UsageError(
            f"{key}: expected no such key beside fit=measured, received one.",
            "The plans of the measured records say what is simulated; fit.rows says what is fitted on.",
        )
    results = select.select("screen", {"source": config["source"], "plan": select.ALL}, desk)
    return of_devices(results, told.arms, word("digest", config["digest"]))


def _marked(told: Told, series: Sequence[Series], cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells, with those marked that are fitted on: of named rows both arms, or of measured ones the first."""
    arms = (0, 1) if told.target == "published" else (0,)
    own = {cell.row: series[cell.row] for cell in cells if cell.arm in arms}
    unknown = [vars(named) for named in told.rows if not any(map(named.names, own.values()))]
    if unknown or not told.rows or len(told.arms) != 2:
        raise ConfigError(
            "fit: expected two arms, and rows with figures of the first, "
            f"received {', '.join(told.arms)} and {unknown[0] if unknown else 'none'}.",
            f"There are {'; '.join(f'{one.row.label}, {one.exchange.transport_sms} SMs' for one in own.values())}.",
        )
    rows = {row for row, one in own.items() if any(named.names(one) for named in told.rows)}
    return tuple(replace(cell, fitted=cell.row in rows and cell.arm in arms) for cell in cells)


def _constants(told: Told, machine: Machine) -> tuple[Constant, ...]:
    """Every constant with what it is; none is fitted that a micro-benchmark gave, but in part, or that is 0."""
    partly, left_out, no_effect = told.partly_measured or {}, told.left_out or {}, told.no_effect or {}
    _check(told, machine)
    found = []
    for one in machine.table:
        name, bounds = one.name, told.constants.get(one.name)
        known = Constant(name, one.unit, one.value, one.source)
        given = one.source.startswith(MEASURED_HERE)
        if bounds is not None and one.value != 0 and (name in partly or not given):
            if not 0 < bounds.lower < one.value < bounds.upper:
                raise ConfigError(
                    f"fit.constants.{name}: expected bounds around {one.value:g}, received {bounds.lower:g} and "
                    f"{bounds.upper:g}.",
                    "A fit starts at the value of the machine file, inside the bounds and above 0.",
                )
            found.append(replace(known, kind=FITTED, reason=partly.get(name), **vars(bounds)))
        else:
            kind = LEFT_OUT if name in left_out else NO_EFFECT if name in no_effect else MEASURED if given else FILE
            found.append(replace(known, kind=kind, reason={**left_out, **no_effect}.get(name)))
    if all(one.kind != FITTED for one in found):
        raise ConfigError(
            "fit.constants: expected one that no micro-benchmark gives, received "
            f"{', '.join(told.constants) or 'none'}.",
            f"List others: {machine.name} has all of these from a calibration.",
        )
    return tuple(found)


def _check(told: Told, machine: Machine) -> None:
    """Whatever no rule of the calibration gives is either fitted or left out for a reason; nothing is two things."""
    known, listed, left_out = set(machine.constants()), set(told.constants), set(told.left_out or {})
    partly, no_effect, down = set(told.partly_measured or {}), set(told.no_effect or {}), set(told.step_down)
    for name in sorted((listed | left_out | partly | no_effect | down) - known):
        raise UsageError(f"fit: expected constants of {machine.name}, received {name!r}.", valid_names(name, known))
    neither = set() if told.left_out is None else known - set(RULE_OF) - listed - left_out
    for name in sorted((listed & left_out) | neither):
        raise ConfigError(
            f"fit: expected {name} in one of constants and left_out, received it in "
            f"{'both' if name in listed else 'neither'}.",
            "No constant without a micro-benchmark goes unsaid: give it bounds, or a reason.",
        )
    for name in sorted((partly - listed) | (no_effect & (listed | down))):
        raise ConfigError(
            "fit: expected what is partly_measured in constants and what has no_effect there nor in step_down, "
            f"received {name}.",
            "Give it bounds, or one place.",
        )
