"""From composed configuration to what a fit is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from afdep.machine import Constant as Described
from afdep.machine import Machine
from harness.config.compose import compose
from harness.config.read import NONE, read, word
from harness.core.fields import Count, Dtype, LayoutName
from harness.core.planning import Wanted
from harness.core.trees import WORKING
from harness.desk import select
from harness.desk.desk import Desk
from harness.errors import ConfigError, UsageError, valid_names
from harness.studies.calibrate.program import Bounds
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
    _check(told, machine)
    constants = tuple(_constant(told, one) for one in machine.table)
    free = [name for name in told.constants if any(one.name == name and one.kind == FITTED for one in constants)]
    if not free:
        raise ConfigError(
            "fit.constants: expected one that no micro-benchmark gives, received "
            f"{', '.join(told.constants) or 'none'}.",
            f"List others: {machine.name} has all of these from a calibration.",
        )
    settings = Settings(
        **{one.name: getattr(told, one.name) for one in fields(Search)},
        series=series,
        cells=_marked(told, series, cells),
        constants=constants,
        free=tuple(free),
        source=source,
    )
    shape = {"layout": series[0].row.layout, **series[0].exchange.shape_of(series[0].row), "machine": machine.name}
    return Wanted("fit", machine.name, settings, arms=tuple(Asked(arm, 0, "sim", shape) for arm in told.arms))


def _published(config: Mapping[str, Any], told: Told, desk: Desk) -> Target:
    if (config["source"], config["digest"]) != (NONE, select.ANY):
        raise UsageError(
            "source: expected none beside published figures, received one.", "Write fit=measured for measured ones."
        )
    trees = {"baseline": WORKING, "candidate": WORKING}
    screen = screen_settings.wanted({**config, "trees": trees, "trace": NONE}, desk).settings
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
    digest = word("digest", config["digest"])
    return of_devices(results, told.arms, None if digest == select.ANY else digest)


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


def _constant(told: Told, one: Described) -> Constant:
    """A constant with what it is; none is fitted that a micro-benchmark gave, but in part, or that is 0."""
    given, bounds = one.source.startswith(MEASURED_HERE), told.constants.get(one.name)
    partly, left_out, no_effect = (
        (reasons or {}).get(one.name) for reasons in (told.partly_measured, told.left_out, told.no_effect)
    )
    if bounds is None or one.value == 0 or (given and not partly):
        kind = LEFT_OUT if left_out else NO_EFFECT if no_effect else MEASURED if given else FILE
        return Constant(**vars(one), kind=kind, reason=left_out or no_effect)
    if not 0 < bounds.lower < one.value < bounds.upper:
        raise ConfigError(
            f"fit.constants.{one.name}: expected bounds around {one.value:g}, received {bounds.lower:g} and "
            f"{bounds.upper:g}.",
            "A fit starts at the value of the machine file, inside the bounds and above 0.",
        )
    return Constant(**vars(one), kind=FITTED, reason=partly, **vars(bounds))


def _check(told: Told, machine: Machine) -> None:
    """Whatever no rule of the calibration gives is either fitted or left out for a reason; nothing is two things."""
    known, listed, left_out = set(machine.constants()), set(told.constants), set(told.left_out or {})
    partly, no_effect, down = set(told.partly_measured or {}), set(told.no_effect or {}), set(told.step_down)
    for name in sorted((listed | left_out | partly | no_effect | down) - known):
        raise UsageError(f"fit: expected constants of {machine.name}, received {name!r}.", valid_names(name, known))
    neither = set() if told.left_out is None else known - set(RULE_OF) - listed - left_out
    wrong = {
        "{name} in one of constants and left_out, received it in both": listed & left_out,
        "{name} in one of constants and left_out, received it in neither": neither,
        "what is partly_measured in constants, received {name}": partly - listed,
        "what has no_effect neither in constants nor in step_down, received {name}": no_effect & (listed | down),
    }
    for words, names in wrong.items():
        for name in sorted(names):
            raise ConfigError(
                f"fit: expected {words.format(name=name)}.",
                "No constant without a micro-benchmark goes unsaid: give it bounds, or a reason, in one place.",
            )
