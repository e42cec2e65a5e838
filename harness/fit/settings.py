"""What a fit runs with: frozen, validated once at the edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import Machine, World
from afdep.build import build
from afdep.machine import Constant
from harness import published, sections
from harness.screen_config import Row, ScreenConfig
from harness.errors import ConfigError, UsageError, valid_names
from harness.fit.cells import Bench
from harness.machine_files import new_machine_file
from harness.published import Point, PublishedTable
from harness.validate import screen_config
from harness.words import as_count, as_distinct, as_kept_name, as_number

NONE = "none"
ROW_KEYS = ("layout", "hidden", "dtype", "routing")
COUNTS = ("evaluations", "most_exchanges", "route_tokens")
NUMBERS = ("pull_pct", "step", "reach", "collinear", "identified_pct")


@dataclass(frozen=True)
class Free:
    """A constant that is fitted, with its bounds."""

    name: str
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """What every fit is told, whatever figures it comes near to.

    Args:
        free: the constants that are fitted.
        step_down: constants that are stepped down.
        evaluations, pull_pct, step, reach, collinear, identified_pct: see conf/fit.
        jobs: processes at a time.
        keep: name of the kept record, or None.
        write: path of the machine file to be written, or None.
    """

    free: tuple[Free, ...]
    step_down: tuple[str, ...]
    evaluations: int
    pull_pct: float
    step: float
    reach: float
    collinear: float
    identified_pct: float
    jobs: int
    keep: str | None
    write: Path | None


@dataclass(frozen=True, kw_only=True)
class FitSettings(SearchSettings):
    """A validated fit to published figures.

    Args:
        screen: rows, tokens and the two arms.
        table: the published figures.
        bench: how a cell is simulated, with the machine of the file.
        no_effect: reasons by constant that the fit leaves alone, see conf/fit.
        fitted_rows: indices of the rows that constants are fitted on.
        most_exchanges, route_tokens: see conf/fit.
    """

    screen: ScreenConfig
    table: PublishedTable
    bench: Bench
    no_effect: Mapping[str, str]
    fitted_rows: tuple[int, ...]
    most_exchanges: int
    route_tokens: int

    @property
    def studied(self) -> tuple[Constant, ...]:
        """The constants whose slopes are taken, in the order of the machine file."""
        return tuple(one for one in self.bench.machine.table if one.name not in self.no_effect)


def fit_settings(config: Mapping[str, Any], routings: Mapping[str, Mapping[str, Any]], repository: Path) -> FitSettings:
    """Read a composed configuration, and build the library that simulates.

    Raises:
        ConfigError, ValueReadError, UsageError, PublishedError, AfdepError: a value of no use.
        MachineError: no such machine, or one whose constants are not those of the cost model.
    """
    screen = _screen(config, routings, repository)
    machine = Machine.load(screen.backend.machine, repository / "conf" / "machine")
    fit = config["fit"]
    told = search_fields(config, machine, repository, COUNTS, NUMBERS)
    return FitSettings(
        screen=screen,
        table=_table(screen, repository),
        bench=_bench(screen, machine),
        free=tuple(
            with_bounds(machine, name, bounds) for name, bounds in _constants(fit["constants"], machine).items()
        ),
        no_effect=_no_effect(fit, machine),
        fitted_rows=_rows(fit["rows"], screen.rows),
        **told,
    )


def search_fields(
    config: Mapping[str, Any], machine: Machine, repository: Path, counts: Sequence[str], numbers: Sequence[str]
) -> dict[str, Any]:
    """The fields of SearchSettings but for `free`, and what more of these counts and numbers conf/fit gives.

    Raises:
        ValueReadError, UsageError: a value of no use.
    """
    fit = config["fit"]
    told: dict[str, Any] = {name: as_count(f"fit.{name}", fit[name], minimum=1) for name in counts}
    told |= {name: as_number(f"fit.{name}", fit[name]) for name in numbers}
    if told["reach"] <= 1:
        raise UsageError(f"fit.reach: expected a factor above 1, received {told['reach']:g}.", "Write 1.5 or the like.")
    return {
        **told,
        "step_down": tuple(known_constant("fit.step_down", one, machine) for one in fit["step_down"]),
        "jobs": as_count("jobs", config["jobs"], minimum=1),
        "keep": as_kept_name(config["keep"], "h100-nvlink"),
        "write": new_machine_file(config["write"], repository),
    }


def _screen(config: Mapping[str, Any], routings: Mapping[str, Mapping[str, Any]], repository: Path) -> ScreenConfig:
    trees = {"baseline": "working", "candidate": "working"}
    screen = screen_config({**config, "trees": trees, "trace": NONE}, routings, repository)
    if len(screen.arms) != 2 or screen.backend.name != "sim":
        received = f"{len(screen.arms)} arms on {screen.backend.name}"
        raise ConfigError(
            f"fit: expected two arms on the simulator, received {received}.", "Leave arm and backend out."
        )
    return screen


def _table(screen: ScreenConfig, repository: Path) -> PublishedTable:
    """The published table; it must have every cell."""
    if screen.published is None:
        raise ConfigError("screen.published: expected a published table, received none.", "Choose screen=table.")
    table = published.load(screen.published, repository / "records" / "published" / "tables.csv")
    for row in screen.rows:
        for tokens in screen.tokens:
            point = Point(row.layout, row.hidden, row.dtype, row.routing, tokens)
            if point not in table.cells:
                raise ConfigError(
                    f"cell {' '.join(map(str, point))}: expected a published figure, received none.",
                    f"Fit to cells of {screen.published} alone.",
                )
    return table


def _bench(screen: ScreenConfig, machine: Machine) -> Bench:
    """The bench, after one world was made on it: that refuses constants that are not those of the cost model."""
    library = build()
    row, exchange = screen.rows[0], screen.exchange
    world = World(row.layout, **exchange.shape_of(row), machine=machine, library=library)
    return Bench(exchange, machine, library, str(world.identity["digest"]))


def _constants(value: object, machine: Machine) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigError("fit.constants: expected constants with bounds, received none.", "Give at least one.")
    return {known_constant("fit.constants", name, machine): bounds for name, bounds in value.items()}


def _no_effect(fit: Mapping[str, Any], machine: Machine) -> Mapping[str, str]:
    """Reasons by constant; one that is fitted or stepped down is none of them."""
    listed = reasons(fit, "no_effect", machine)
    wanted = sorted(set(listed) & {*fit["constants"], *fit["step_down"]})
    if wanted:
        raise ConfigError(
            f"fit.no_effect: expected constants that the fit leaves alone, received {wanted[0]}.",
            "It stands in fit.constants or fit.step_down: give it one place.",
        )
    return listed


def reasons(fit: Mapping[str, Any], key: str, machine: Machine) -> dict[str, str]:
    """Reasons by constant, as a key of conf/fit gives them.

    Raises:
        UsageError: the machine has no constant of that name.
    """
    return {known_constant(f"fit.{key}", name, machine): str(reason) for name, reason in fit[key].items()}


def known_constant(key: str, name: object, machine: Machine) -> str:
    """The name of a constant, if the machine has it.

    Raises:
        UsageError: it has none of that name.
    """
    names = list(machine.constants())
    if name not in names:
        raise UsageError(f"{key}: expected a constant of {machine.name}, received {name!r}.", valid_names(name, names))
    return str(name)


def with_bounds(machine: Machine, name: str, bounds: object) -> Free:
    """A constant that is fitted from its value in the machine file.

    Raises:
        ConfigError: bounds that are not two, or not around that value and above 0.
        ValueReadError: a bound that is no number.
    """
    value = machine.constants()[name]
    if not isinstance(bounds, Mapping) or set(bounds) != {"lower", "upper"}:
        raise ConfigError(f"fit.constants.{name}: expected lower and upper, received {bounds!r}.", "Give both.")
    lower, upper = (as_number(f"fit.constants.{name}.{side}", bounds[side]) for side in ("lower", "upper"))
    if not 0 < lower < value < upper:
        raise ConfigError(
            f"fit.constants.{name}: expected bounds around {value:g}, received {lower:g} and {upper:g}.",
            "A fit starts at the value of the machine file, inside the bounds and above 0.",
        )
    return Free(name, lower, upper)


def _rows(value: object, rows: Sequence[Row]) -> tuple[int, ...]:
    """The indices of the rows that are named."""
    found = []
    for one in as_distinct("fit.rows", value):
        named = sections.section({"row": one}, "row", ROW_KEYS)
        matching = [index for index, row in enumerate(rows) if all(getattr(row, key) == named[key] for key in ROW_KEYS)]
        if not matching:
            known = "; ".join(f"{row.layout} {row.hidden} {row.dtype} {row.routing}" for row in rows)
            raise ConfigError(f"fit.rows: expected a row of the screen, received {one!r}.", f"It has {known}.")
        found += matching
    return tuple(found)
