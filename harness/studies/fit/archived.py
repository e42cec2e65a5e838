"""The fits that records hold: solved from the cells of a plan, or archived as tables; and a machine file of one."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from afdep import Machine
from harness.errors import ReportError
from harness.ranks.cells import Exchange, Row
from harness.report import machine_file
from harness.report.results import Part, Results
from harness.studies.fit.fit import FILE, FITTED, NO_EFFECT, Cell, Constant, Fit, Series, Settings, Source, Step
from harness.studies.fit.program import Record
from harness.studies.fit.search import LackingError, solved

Data = dict[str, Any]


def fits(results: Results) -> list[Fit | None]:
    """One a part; None where cells are lacking."""
    return [_fit(part) for part in results.parts]


def products(results: Results, path: Path, conf: Path) -> list[Path]:
    """Write a new machine file: that of the fitted machine, with the constants that the last fit found.

    Args:
        results: a fit.
        path: of the new file.
        conf: folder of configurations, with the machine files.

    Raises:
        ReportError: a fit that is not finished, or a machine file that has other values than when it was fitted.
        UsageError: a file is there, or it is not named as a machine file.
    """
    fit = fits(results)[-1]
    machine = None if fit is None else Machine.load(fit.settings.machine, conf / "machine")
    if fit is None or machine is None or machine.constants() != fit.settings.values:
        raise ReportError(
            "write: expected a finished fit of a machine file that is as it was, received another.",
            "Run the fit, again if the machine file has changed.",
        )
    source = f"fitted on the {fitted_on(fit)} by the study fit, {results.name}, from"
    changed = [
        replace(one, value=float(f"{fit.found[one.name]:.4g}"), source=f"{source} {one.value:g}")
        for one in machine.table
        if one.name in fit.found
    ]
    return [machine_file.write(conf / "machine" / f"{machine.name}.yaml", path, changed)]


def fitted_on(fit: Fit) -> str:
    """What the constants are fitted on."""
    told, cells = fit.settings, fit.settings.where(fitted=True)
    rows = "; ".join(dict.fromkeys(told.label(told.cells[at].row) for at in cells))
    if told.target == "measured":
        return f"measured {told.arms[0]} of {rows} ({len(cells)} round trips)"
    return f"published {rows} ({len(cells)} round trips, {len(cells) // 2} paired changes)"


def _fit(part: Part) -> Fit | None:
    if part.file is None:
        return None if part.reading.quarantined else archived(part.reading.rows)
    try:
        return solved(part.plan.settings, part.of(Record))
    except LackingError:
        return None


def archived(rows: Sequence[Data]) -> Fit:
    """A fit of the earlier format, from the rows of all its tables."""
    by_table = itertools.groupby(rows, key=lambda row: row["table"].removeprefix("measured_").removeprefix("fit_"))
    tables = {name: list(own) for name, own in by_table}
    (run,), constants, told = tables["fits"], tables["constants"], tables["slopes"]
    target = "published" if "published" in run else "measured"
    cells = [one for row in tables["cells"] for one in _by_arm(row)]
    known = [one.get("cell", at) for at, one in enumerate(told[: len(told) // len(constants)])]
    slopes = np.full((2, len(constants), len(cells)), np.nan)
    slopes[..., known] = pd.DataFrame(told, columns=["slope", "error"]).T.to_numpy().reshape(2, len(constants), -1)
    return Fit(
        _settings(tables, run, target, cells),
        {kind: np.array([one[f"{kind}_us"] for one in cells]) for kind in (target, "simulated", "refitted")},
        slopes[0],
        slopes[1],
        steps=tuple(_only(Step, one) for one in tables["steps"]),
        found={one["name"]: one["refitted"] for one in constants if one["refitted"] is not None},
        refits={(one["row"], one["alone"]): np.array(one["simulated_us"]) for one in tables.get("refits", ())},
        native_digest=run["native_digest"],
    )


def _by_arm(row: Data) -> list[Data]:
    """A row for each arm; a published cell holds both."""
    if "arm" in row:
        return [{**row, "measured_us": row["compared_us"]}]
    return [
        {**row, "arm": arm, "change_pct": row["published_change_pct"] if arm else None}
        | {f"{kind}_us": row[f"{kind}_{side}_us"] for kind in ("published", "simulated", "refitted")}
        for arm, side in enumerate(("baseline", "candidate"))
    ]


def _settings(tables: dict[str, list[Data]], run: Data, target: str, cells: Sequence[Data]) -> Any:
    told, constants = json.loads(run["settings"]), tables["constants"]
    free = tuple(one["name"] for one in constants if one["refitted"] is not None)
    exchange = {"top_k": 0, "capacity": 0, "seed": 0, **told, "bucket": None, "collect": "copy", "mode": "graph"}
    series = {one["row"]: Series(_only(Row, one), _only(Exchange, exchange | one)) for one in cells}
    own = {
        "target": target,
        "machine": run["machine"],
        "arms": tuple(run[name] for name in ("baseline", "candidate", "fitted_arm", "held_out_arm") if name in run),
        "series": tuple(series.values()),
        "cells": tuple(_only(Cell, {**one, "us": one[f"{target}_us"]}) for one in cells),
        "constants": (
            *(
                _only(Constant, {"source": "", "kind": FITTED if one["name"] in free else FILE, **one})
                for one in constants
            ),
            *(Constant(name, 0.0, "", "", NO_EFFECT, why) for name, why in told.get("no_effect", {}).items()),
        ),
        "free": free,
        "source": _source(tables, run) if target == "measured" else Source(run["published"]),
    }
    return _only(Settings, {"step_down": (), "slope_exchanges": told.get("most_exchanges"), **told, **own})


def _source(tables: dict[str, list[Data]], run: Data) -> Source:
    """Of measured figures; the native digest was of the sources of both targets then, and no cell was absent."""
    lines = (
        f"measured: {run['source']} on {run['devices']}, native digest {run['measured_digest']}",
        *(
            f"plan {one['plan_hash']}, {one['timing']}: `{one['plan_command']}`; {one['plan_created']}"
            for one in tables["plans"]
        ),
    )
    return Source(run["source"], run["measured_digest"], run["native_digest"], run["start_us"], lines)


def _only(kind: Any, data: Data) -> Any:
    """A dataclass from what data has of its fields; nothing stands for what is not told of one with a default."""
    own = [one for one in fields(kind) if one.name in data]
    return kind(**{one.name: data[one.name] for one in own if data[one.name] is not None or one.default is MISSING})
