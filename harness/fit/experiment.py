"""A fit from end to end: the table as it is, the slopes of every constant, the search, and the table it leads to."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.digests import harness_digest
from harness.fit.cells import Runner, Task, cell_us
from harness.fit.figures import Array, Figures, published_figures
from harness.fit.leave_out import solution
from harness.fit.settings import COUNTS, NUMBERS, FitSettings
from harness.fit.slopes import Slopes, exchanges_of, measure, step_of
from harness.fit.solve import Problem, Start, line, solve
from harness.fit.study import Study
from harness.records.fits import Fit, FitCell, FitConstant, FitRefit, FitRun, FitSlope
from harness.surroundings import Surroundings

Values = Mapping[str, float]


def perform(settings: FitSettings, run: Runner, command: str, around: Surroundings) -> Fit:
    """Simulate, search and simulate again; a line for each step of it."""
    experiment = Experiment(settings, run, around, around.timed_lines())
    rows, names = range(len(settings.screen.rows)), [one.name for one in settings.studied]
    before = experiment.table(rows, {})
    experiment.say(f"the table as {settings.bench.machine.name} has it: {before.size} cells")
    slopes = experiment.slopes(names, rows, {})
    problem = experiment.problem(before, slopes)
    best = solve(problem, settings.evaluations)
    found = problem.values(np.log(np.array(best.values) / problem.pull.start))
    after = experiment.table(rows, found)
    experiment.say(f"the table with evaluation {best.evaluation}: {after.size} cells")
    fit = Fit(
        experiment.run_record(command),
        cell_records(settings, before, after),
        constant_records(settings, found),
        slope_records(settings, names, slopes),
        tuple(problem.steps),
        (),
    )
    return replace(fit, refits=experiment.refits(Study(fit)))


@dataclass(frozen=True)
class Experiment:
    """The settings of a fit with the processes that simulate for it."""

    settings: FitSettings
    run: Runner
    around: Surroundings
    say: Callable[[str], None]

    def table(self, rows: Sequence[int], values: Values) -> Array:
        """Round trips of both arms as a screen times them: [row, tokens, arm] in us."""
        screen = self.settings.screen
        tasks = [
            Task(self.settings.bench, screen.rows[row], tokens, arm.name, dict(values), screen.backend.num_exchanges)
            for row in rows
            for tokens in screen.tokens
            for arm in screen.arms
        ]
        found = [cell_us(samples) for samples in self.run(tasks)]
        return np.array(found).reshape(len(rows), len(screen.tokens), len(screen.arms))

    def slopes(self, names: Sequence[str], rows: Sequence[int], values: Values) -> Slopes:
        """Slopes of constants at `values`, with a line for each constant."""

        def listen(name: str, done: int, total: int) -> None:
            self.say(f"[{done:{len(str(total))}d}/{total}] slopes of {name}")

        return measure(self.settings, names, rows, values, self.run, listen)

    def problem(self, before: Array, slopes: Slopes) -> Problem:
        """The fit on the declared rows; what is known of its start is not simulated again."""
        settings, rows = self.settings, self.settings.fitted_rows
        names = [one.name for one in settings.free]
        studied = {one.name: one.value for one in settings.studied}
        start = Start(
            {name: studied[name] for name in names},
            before[list(rows)],
            slopes.slope[[list(studied).index(name) for name in names]][:, list(rows)],
        )
        return Problem(
            settings.free,
            start.pull(settings.pull_pct),
            published_figures(settings.screen, settings.table).of_rows(rows),
            start.us_or(lambda values: self.table(rows, values)),
            start.slopes_or(lambda values: self.slopes(names, rows, values).slope),
            lambda step: self.say(line(step)),
        )

    def refits(self, study: Study) -> tuple[FitRefit, ...]:
        """Each row left out and each row alone in a linearised refit, and the row simulated with what it finds."""
        rows = range(len(study.rows))
        found = []
        for row in rows:
            for alone, fitted in ((False, [other for other in rows if other != row] or [row]), (True, [row])):
                factors = np.exp(solution(study, fitted))
                values = {one.name: one.value * float(by) for one, by in zip(study.free, factors, strict=True)}
                us = tuple(map(float, self.table([row], values).ravel()))
                found.append(FitRefit(row=row, alone=alone, values=tuple(values.values()), simulated_us=us))
            self.say(f"refits for row {row + 1} of {len(rows)}")
        return tuple(found)

    def run_record(self, command: str) -> FitRun:
        screen, bench = self.settings.screen, self.settings.bench
        return FitRun(
            command=command,
            created=self.around.now().isoformat(timespec="seconds"),
            native_digest=bench.native_digest,
            harness_digest=harness_digest(self.around.repository),
            machine=bench.machine.name,
            published=self.settings.table.table_id,
            baseline=screen.arms[0].name,
            candidate=screen.arms[1].name,
            settings=settings_text(self.settings),
        )


def settings_text(settings: FitSettings) -> str:
    """How cells were simulated and what the fit was told, as JSON."""
    exchange = settings.screen.exchange
    names = (*COUNTS, *NUMBERS)
    told = {name: getattr(settings, name) for name in names}
    cells = {name: getattr(exchange, name) for name in ("top_k", "capacity", "transport_sms", "seed")}
    cells |= {"num_exchanges": settings.screen.backend.num_exchanges}
    return json.dumps({**told, **cells, "no_effect": dict(settings.no_effect)}, sort_keys=True)


def cell_records(settings: FitSettings, before: Array, after: Array) -> list[FitCell]:
    """One record a cell, from its published, simulated and refitted figures."""
    target = published_figures(settings.screen, settings.table)
    return [
        _cell(settings, (row, column), target, before, after)
        for row in range(len(settings.screen.rows))
        for column in range(len(settings.screen.tokens))
    ]


def _cell(settings: FitSettings, at: tuple[int, int], target: Figures, before: Array, after: Array) -> FitCell:
    row = settings.screen.rows[at[0]]
    return FitCell(
        row=at[0],
        layout=row.layout,
        hidden=row.hidden,
        dtype=row.dtype,
        routing=row.routing,
        zipf_exponent=row.zipf_exponent,
        experts=row.experts,
        fitted=at[0] in settings.fitted_rows,
        tokens=settings.screen.tokens[at[1]],
        published_baseline_us=float(target.us[at][0]),
        published_candidate_us=float(target.us[at][1]),
        published_change_pct=float(target.change_pct[at]),
        simulated_baseline_us=float(before[at][0]),
        simulated_candidate_us=float(before[at][1]),
        refitted_baseline_us=float(after[at][0]),
        refitted_candidate_us=float(after[at][1]),
    )


def constant_records(settings: FitSettings, found: Values) -> list[FitConstant]:
    """One record a constant whose slopes were taken, in the order of the machine file."""
    bounds = {one.name: one for one in settings.free}
    records = []
    for one in settings.studied:
        stepped = step_of(settings, one.name, one.value).stepped
        record = FitConstant(
            name=one.name, unit=one.unit, value=one.value, stepped=stepped, lower=None, upper=None, refitted=None
        )
        if one.name in bounds:
            free = bounds[one.name]
            record = replace(record, lower=free.lower, upper=free.upper, refitted=found[one.name])
        records.append(record)
    return records


def slope_records(settings: FitSettings, names: Sequence[str], slopes: Slopes) -> list[FitSlope]:
    """One record a constant and cell of an arm."""
    tokens = settings.screen.tokens
    return [
        FitSlope(
            constant=names[constant],
            row=row,
            tokens=tokens[column],
            arm=arm,
            exchanges=exchanges_of(settings, tokens[column]),
            slope=float(slope),
            error=None if np.isnan(error) else float(error),
        )
        for (constant, row, column, arm), slope in np.ndenumerate(slopes.slope)
        for error in [slopes.error[constant, row, column, arm]]
    ]
