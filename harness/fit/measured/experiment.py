"""A fit to measured round trips from end to end: all cells as the file has them, slopes, search, all cells again."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.calibrate.machine_file import MEASURED_HERE
from harness.digests import harness_digest
from harness.fit.cells import Samples
from harness.fit.figures import Array, rms_pct
from harness.fit.measured.replays import Replay, cell_us, replays
from harness.fit.measured.settings import COUNTS, NUMBERS, MeasuredSettings
from harness.fit.measured.targets import Place
from harness.fit.slopes import of_steps, steps_of
from harness.fit.solve import Problem, Start, line, solve
from harness.records.measured_fits import (
    FILE,
    FITTED,
    LEFT_OUT,
    MEASURED,
    MeasuredCell,
    MeasuredConstant,
    MeasuredFit,
    MeasuredRun,
    MeasuredSlope,
)
from harness.surroundings import Surroundings

Values = Mapping[str, float]
Run = Callable[[Sequence[Replay]], Iterator[Samples]]


@dataclass(frozen=True)
class RoundTrips:
    """Measured round trips in us, one a cell, as a fit comes near to them: 100 log of the ratio."""

    us: Array

    def residuals_pct(self, own_us: Array) -> Array:
        """Simulated against measured."""
        return np.asarray(100.0 * np.log(own_us / self.us))

    def jacobian_pct(self, own_us: Array, slopes: Array) -> Array:
        """How `residuals_pct` moves with log of each constant, [cell, constant]."""
        return np.asarray(100.0 * slopes.T)

    def rms_pct(self, own_us: Array) -> float:
        """The root mean square of simulated / measured - 1, in percent."""
        return rms_pct(own_us, self.us)


def perform(settings: MeasuredSettings, run: Run, command: str, around: Surroundings) -> MeasuredFit:
    """Simulate, search on the fitted cells, and simulate again; a line for each step of it."""
    experiment = Experiment(settings, run, around, around.timed_lines())
    places = list(settings.targets.cells)
    before = experiment.round_trips(places, {})
    experiment.say(f"{len(places)} measured cells, simulated on {settings.machine.name}")
    near = [index for index, place in enumerate(places) if experiment.is_in_a_fitted_row(place)]
    names = list(settings.machine.constants())
    slopes = experiment.slopes(names, [places[index] for index in near], {})
    experiment.say(f"slopes of {len(names)} constants in {len(near)} of them")
    at_fitted = [place in settings.fitted for place in (places[index] for index in near)]
    problem = experiment.problem(before, slopes[:, at_fitted])
    best = solve(problem, settings.evaluations)
    found = dict(zip((one.name for one in settings.free), best.values, strict=True))
    after = experiment.round_trips(places, found)
    experiment.say(f"the cells with evaluation {best.evaluation}")
    return MeasuredFit(
        experiment.run_record(command),
        settings.targets.plans,
        settings.targets.absences,
        cell_records(settings, before, after),
        constant_records(settings, found),
        [
            MeasuredSlope(constant=names[constant], cell=near[cell], slope=float(slope))
            for (constant, cell), slope in np.ndenumerate(slopes)
        ],
        tuple(problem.steps),
    )


@dataclass(frozen=True)
class Experiment:
    """The settings of a fit with the processes that simulate for it."""

    settings: MeasuredSettings
    run: Run
    around: Surroundings
    say: Callable[[str], None]

    def is_in_a_fitted_row(self, place: Place) -> bool:
        return any(place.series == one.series for one in self.settings.fitted)

    def round_trips(self, places: Sequence[Place], values: Values) -> Array:
        """Simulated round trips in us, one a cell."""
        settings = self.settings
        tasks = replays(settings.simulator, places, values, settings.num_exchanges)
        return np.array([cell_us(samples) for samples in self.run(tasks)])

    def slopes(self, names: Sequence[str], places: Sequence[Place], values: Values) -> Array:
        """Slopes d log(us) / d log(constant) at the machine with `values` in place of its own: [constant, cell]."""
        settings = self.settings

        def tasks(change: Values) -> Sequence[Replay]:
            return replays(settings.simulator, places, change, settings.slope_exchanges)

        return of_steps(steps_of(settings, settings.machine, names, values), values, tasks, self.run).slope

    def problem(self, before: Array, at_start: Array) -> Problem:
        """The fit on the fitted cells; what is known of its start is not simulated again."""
        settings, fitted = self.settings, list(self.settings.fitted)
        names = [one.name for one in settings.free]
        constants = settings.machine.constants()
        start = Start(
            {name: constants[name] for name in names},
            before[[place in fitted for place in settings.targets.cells]],
            at_start[[list(constants).index(name) for name in names]],
        )
        return Problem(
            settings.free,
            start.pull(settings.pull_pct),
            RoundTrips(compared_us(settings, fitted)),
            start.us_or(lambda values: self.round_trips(fitted, values)),
            start.slopes_or(lambda values: self.slopes(names, fitted, values)),
            lambda step: self.say(line(step)),
        )

    def run_record(self, command: str) -> MeasuredRun:
        """The fit itself."""
        settings, found = self.settings, self.settings.targets
        return MeasuredRun(
            command=command,
            created=self.around.now().isoformat(timespec="seconds"),
            native_digest=settings.simulator.native_digest,
            measured_digest=found.digest,
            harness_digest=harness_digest(self.around.repository),
            machine=settings.machine.name,
            source=settings.source,
            devices="; ".join(found.devices),
            fitted_arm=settings.arms[0],
            held_out_arm=settings.arms[1],
            start_us=found.start_us,
            num_absences=len(found.absences),
            settings=json.dumps({name: getattr(settings, name) for name in (*COUNTS, *NUMBERS)}, sort_keys=True),
        )


def compared_us(settings: MeasuredSettings, places: Sequence[Place]) -> Array:
    """The measured figures that simulated ones are compared with, in us."""
    found = settings.targets
    return np.array([found.cells[place].compared(found.start_us)[0] for place in places])


def cell_records(settings: MeasuredSettings, before: Array, after: Array) -> list[MeasuredCell]:
    """One record a cell, from its measured, simulated and refitted figures."""
    found = settings.targets
    series = found.series
    records = []
    for index, (place, figures) in enumerate(found.cells.items()):
        row, (compared, timing) = place.series.row, figures.compared(found.start_us)
        records.append(
            MeasuredCell(
                row=series.index(place.series),
                layout=row.layout,
                hidden=row.hidden,
                dtype=row.dtype,
                routing=row.routing,
                zipf_exponent=row.zipf_exponent,
                experts=row.experts,
                transport_sms=place.series.exchange.transport_sms,
                tokens=place.cell.tokens,
                arm=settings.arms.index(place.arm),
                fitted=place in settings.fitted,
                free_us=figures.free_us,
                behind_us=figures.behind_us,
                replay=figures.replay,
                compared_us=float(compared),
                timing=timing,
                simulated_us=float(before[index]),
                refitted_us=float(after[index]),
            )
        )
    return records


def constant_records(settings: MeasuredSettings, found: Values) -> list[MeasuredConstant]:
    """One record a constant of the machine file, in its order."""
    bounds = {one.name: one for one in settings.free}
    records = []
    for one in settings.machine.table:
        free = bounds.get(one.name)
        kind = MEASURED if one.source.startswith(MEASURED_HERE) else FILE
        kind = FITTED if free else LEFT_OUT if one.name in settings.left_out else kind
        reasons = {**settings.left_out, **(settings.partly_measured if free else {})}
        records.append(
            MeasuredConstant(
                name=one.name,
                unit=one.unit,
                value=one.value,
                source=one.source,
                kind=kind,
                reason=reasons.get(one.name),
                lower=free.lower if free else None,
                upper=free.upper if free else None,
                refitted=found[one.name] if free else None,
            )
        )
    return records
