"""What a fit to measured round trips runs with: frozen, validated once at the edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import Machine
from afdep.build import build
from harness import pages, sections
from harness.calibrate.judging import RULE_OF
from harness.calibrate.machine_file import MEASURED_HERE
from harness.screen_config import Row
from harness.errors import ConfigError, UsageError
from harness.fit.measured.replays import Simulator, world
from harness.fit.measured.targets import Place, Series, Targets, targets
from harness.fit.settings import (
    NONE,
    Free,
    SearchSettings,
    known_constant,
    reasons,
    search_fields,
    with_bounds,
)
from harness.words import as_distinct, as_word
from harness.workspace import Workspace, displayed

ROW_KEYS = ("layout", "hidden", "dtype", "routing", "transport_sms")
COUNTS = ("evaluations", "num_exchanges", "slope_exchanges", "worst")
NUMBERS = ("pull_pct", "step", "reach", "collinear", "identified_pct", "goal_pct")
FOREIGN = ("screen", "exchange", "backend", "layout", "hidden", "dtype", "routing", "tokens", "arm")
"""Keys of the other target: here the plans of the measured records say all of it."""


@dataclass(frozen=True, kw_only=True)
class MeasuredSettings(SearchSettings):
    """A validated fit to measured figures.

    Args:
        simulator: the machine of the file, and the library that simulates.
        targets: what was measured.
        source: the folder it came from, as displayed.
        arms: the fitted one, and the one that is held out.
        fitted: places of the cells that constants are fitted on, all of the fitted arm.
        partly_measured, left_out: reasons by constant, see conf/fit.
        num_exchanges, slope_exchanges, worst, goal_pct: see conf/fit.
    """

    simulator: Simulator
    targets: Targets
    source: str
    arms: tuple[str, str]
    fitted: tuple[Place, ...]
    partly_measured: Mapping[str, str]
    left_out: Mapping[str, str]
    num_exchanges: int
    slope_exchanges: int
    worst: int
    goal_pct: float

    @property
    def machine(self) -> Machine:
        return self.simulator.machine


def measured_settings(config: Mapping[str, Any], texts: Sequence[str], repository: Path) -> MeasuredSettings:
    """Read a composed configuration, what was measured, and build the library that simulates.

    Args:
        config: plain data, as `compose` returns it.
        texts: the words after the verb, as typed.
        repository: where the folders of records and machines are.

    Raises:
        ConfigError, ValueReadError, UsageError, ReportError, WorkspaceError, DigestError: a value of no use, or
            nothing measured that it could be fitted to.
        MachineError, BuildError: no such machine, or one whose constants are not those of the cost model.
    """
    _refuse_foreign(texts)
    fit = config["fit"]
    machine = Machine.load(as_word("fit.machine", fit["machine"], "a machine"), repository / "conf" / "machine")
    arms = _arm(fit, "fitted_arm"), _arm(fit, "held_out_arm")
    source, found = _measured(config, arms, repository)
    partly, left_out = (reasons(fit, key, machine) for key in ("partly_measured", "left_out"))
    return MeasuredSettings(
        simulator=_simulator(machine, next(iter(found.cells))),
        targets=found,
        source=source,
        arms=arms,
        fitted=_fitted(fit["rows"], found, arms[0]),
        free=_free(fit["constants"], machine, partly, left_out),
        partly_measured=partly,
        left_out=left_out,
        **search_fields(config, machine, repository, COUNTS, NUMBERS),
    )


def _refuse_foreign(texts: Sequence[str]) -> None:
    for text in texts:
        key = text.partition("=")[0]
        if key.partition(".")[0] in FOREIGN:
            raise UsageError(
                f"{key}: expected no such key beside fit=measured, received one.",
                "The plans of the measured records say what is simulated; fit.rows says what is fitted on.",
            )


def _arm(fit: Mapping[str, Any], key: str) -> str:
    return as_word(f"fit.{key}", fit[key], "an arm as m2n or afdep")


def _measured(config: Mapping[str, Any], arms: tuple[str, str], repository: Path) -> tuple[str, Targets]:
    """The folder as it is displayed, and what was measured there."""
    word = as_word("source", config["source"], "a folder of kept screens")
    if word == NONE:
        raise UsageError("source: expected a folder of measured screens, received none.", "Write source=records/h200.")
    workspace = Workspace.under(word, repository)
    return displayed(workspace.out, repository), targets(pages.parts_of(workspace), arms, config["digest"])


def _simulator(machine: Machine, place: Place) -> Simulator:
    """The simulator, after one world was made on it: that refuses constants that are not those of the cost model."""
    library = build()
    unnamed = Simulator(machine, library, "")
    return Simulator(machine, library, str(world(unnamed, place, {}).identity["digest"]))


def _fitted(value: object, found: Targets, arm: str) -> tuple[Place, ...]:
    """The measured cells of the fitted arm in the rows that are named; each row must have one."""
    wanted = [sections.section({"row": one}, "row", ROW_KEYS) for one in as_distinct("fit.rows", value)]
    own = [place for place in found.cells if place.arm == arm]
    for row in wanted:
        if not any(_is(place.series, row) for place in own):
            known = "; ".join(dict.fromkeys(place.series.label for place in own))
            raise ConfigError(
                f"fit.rows: expected rows with measured cells of {arm}, received {dict(row)}.", f"Measured: {known}."
            )
    return tuple(place for place in own if any(_is(place.series, row) for row in wanted))


def _is(series: Series, wanted: Mapping[str, Any]) -> bool:
    row: Row = series.row
    known = {**{key: getattr(row, key) for key in ROW_KEYS[:-1]}, "transport_sms": series.exchange.transport_sms}
    return known == dict(wanted)


def _free(value: object, machine: Machine, partly: Mapping[str, str], left_out: Mapping[str, str]) -> tuple[Free, ...]:
    """The listed constants that no micro-benchmark gave, or gave in part; none that is 0, which has no logarithm."""
    if not isinstance(value, Mapping) or not value:
        raise ConfigError("fit.constants: expected constants with bounds, received none.", "Give at least one.")
    listed = {known_constant("fit.constants", name, machine): bounds for name, bounds in value.items()}
    _check_accounted(machine, listed, left_out)
    stray = sorted(set(partly) - set(listed))
    if stray:
        raise ConfigError(
            f"fit.partly_measured: expected constants of fit.constants, received {stray[0]}.", "Give it bounds there."
        )
    given = {one.name for one in machine.table if one.source.startswith(MEASURED_HERE)} - set(partly)
    fixed = given | {one.name for one in machine.table if one.value == 0}
    free = tuple(with_bounds(machine, name, bounds) for name, bounds in listed.items() if name not in fixed)
    if not free:
        raise ConfigError(
            f"fit.constants: expected one that no micro-benchmark gives, received {', '.join(listed)}.",
            f"{machine.name} has all of them from a calibration: list others.",
        )
    return free


def _check_accounted(machine: Machine, listed: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
    """Whatever no rule of the calibration gives is either fitted or left out for a reason, and nothing is both."""
    both = sorted(set(listed) & set(left_out))
    neither = [name for name in machine.constants() if name not in RULE_OF and name not in {*listed, *left_out}]
    for name in (*both, *neither):
        verb = "both" if name in both else "neither"
        raise ConfigError(
            f"fit: expected {name} in one of constants and left_out, received it in {verb}.",
            "No constant without a micro-benchmark goes unsaid: give it bounds, or a reason.",
        )
