"""The fits that records hold: solved from the cells of a plan, or archived as tables of the earlier format."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pandas as pd

from harness.ranks.cells import Exchange, Row
from harness.report.results import Part, Results
from harness.studies.fit.fit import FILE, FITTED, NO_EFFECT, Cell, Constant, Fit, Series, Settings, Source, Step
from harness.studies.fit.program import Record
from harness.studies.fit.search import LackingError, solved

Data = dict[str, Any]


def fits(results: Results) -> list[Fit | None]:
    """One a part; None where cells are lacking."""
    return [_fit(part) for part in results.parts]


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
    """Of measured figures; the native digest was of the sources of both targets then."""
    lines = (
        f"measured: {run['source']} on {run['devices']}, native digest {run['measured_digest']}",
        *(
            f"plan {one['plan_hash']}, {one['timing']}: `{one['plan_command']}`; {one['plan_created']}"
            for one in tables["plans"]
        ),
    )
    absences = (
        f"{one['status']}: {one['what']}: {one['reason']} (plan {one['plan_hash']})"
        for one in (tables["absences"] if run["num_absences"] else ())
    )
    return Source(run["source"], run["measured_digest"], run["native_digest"], run["start_us"], lines, tuple(absences))


def _only(kind: Any, data: Data) -> Any:
    """A dataclass from what data has of its fields; nothing stands for what is not told of one with a default."""
    own = [one for one in fields(kind) if one.name in data]
    return kind(**{one.name: data[one.name] for one in own if data[one.name] is not None or one.default is MISSING})
