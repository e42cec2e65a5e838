"""The archived fits: their pages, what docs/cost-model.md says of them, and damaged records."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from afdep import Machine
from harness.config.compose import compose
from harness.desk import select
from harness.errors import Exit, HarnessError
from harness.records import table
from harness.report.results import Part, Results
from harness.studies.fit import report
from harness.studies.fit.archived import fits
from harness.studies.fit.findings import identification
from harness.studies.fit.fit import rms
from harness.studies.screen.tables import Found
from tests.studies.bench import ROOT, desk_at, settings_of

PUBLISHED, MEASURED = "h100-nvlink", "h200-nvlink"
FITTED = (
    *("cooperative_launch_ns", "nvlink_gb_per_s", "hbm_latency_ns", "latency_spread", "l2_bytes", "sm_load_gb_per_s"),
    *("bulk_gb_per_s", "accumulate_ns", "acquire_ns", "grid_sync_ns"),
)
ALIKE = (
    ("grid_sync_ns", "acquire_ns"),
    ("cooperative_launch_ns", "accumulate_ns"),
    ("nvlink_gb_per_s", "sm_load_gb_per_s"),
)
"""Pairs that docs/cost-model.md names."""


def results_of(name, folder=ROOT / "records" / "fit"):
    reading = table.read(table.record_files(folder / name))
    return Results("fit", name, (Part(None, reading),))


def fit_of(name):
    (fit,) = fits(results_of(name))
    return fit


@pytest.fixture(scope="module")
def fit():
    return fit_of(PUBLISHED)


@pytest.mark.parametrize("name", [PUBLISHED, MEASURED])
def test_the_page_of_an_archived_fit_is_that_of_its_record(name, tmp_path):
    results, folder = results_of(name), ROOT / "reports" / "fit"
    drawn = report.draw(results, tmp_path, name)
    pictures = [(path.name, words) for path, words in drawn]
    assert (folder / f"{name}.md").read_text("utf-8") == report.text(results, pictures)
    assert all((folder / path.name).is_file() for path, _ in drawn)
    assert report.status(results) == Exit.OK


@pytest.mark.parametrize("name", ["cells", "slopes", "steps", "refits"])
def test_a_damaged_table_is_named_and_the_fit_is_not_whole(tmp_path, name):
    shutil.copytree(ROOT / "records" / "fit" / PUBLISHED, tmp_path / "fit")
    path = tmp_path / "fit" / f"{name}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    damaged = results_of("fit", tmp_path)
    assert fits(damaged) == [None]
    assert report.status(damaged) != Exit.OK
    assert f"quarantined: {name}.parquet: expected the rows that were written" in re.sub(
        "[.]parquet: [^:]*: ", ".parquet: ", report.text(damaged)
    )
    with pytest.raises(HarnessError, match="expected a finished fit"):
        report.products(damaged, tmp_path / "new.yaml", ROOT / "conf")


def test_absences_cannot_be_dropped_from_a_record():
    rows = [dict(row) for row in results_of(MEASURED).rows]
    next(row for row in rows if row["table"] == "measured_fits")["num_absences"] = 1
    with pytest.raises(KeyError, match="absences"):
        fits(Results("fit", "x", (Part(None, table.Reading(tuple(rows))),)))


def test_the_archived_fit_is_of_the_machine_as_it_is_and_of_the_archived_table(fit):
    no_effect = compose("study/fit", [], ROOT / "conf")["fit"]["no_effect"]
    studied = {name: value for name, value in Machine.load(PUBLISHED).constants().items() if name not in no_effect}
    assert {name: fit.settings.values[name] for name in fit.settings.names} == studied
    (part,) = select.select("screen", {"source": "records/screen/main-table", "plan": "all"}, desk_at(ROOT, [])).parts
    found = Found(part).findings.comparisons
    ours = {
        (cell.row, cell.tokens, cell.arm): us for cell, us in zip(fit.settings.cells, fit.us["simulated"], strict=True)
    }
    screened = {
        (row, tokens, arm): us
        for (row, tokens, _), one in found.items()
        for arm, us in enumerate((one.baseline_us, one.candidate_us))
    }
    assert ours == pytest.approx(screened, rel=1e-12)


def test_the_constants_that_the_machine_file_calls_fitted_are_those_of_the_archived_fit(fit):
    called = [one.name for one in Machine.load(PUBLISHED).table if one.source.startswith("fitted on")]
    assert sorted(fit.settings.free) == sorted(called) == sorted(FITTED)


def test_the_archived_fit_holds_every_row_out_but_one(fit):
    told = fit.settings
    assert {told.place(at)[1].row.hidden for at in told.where(fitted=True)} == {2048}
    assert (len(told.where(fitted=True)), len(told.series), fit.slopes.shape) == (12, 6, (len(told.names), 72))
    assert not np.isnan(fit.slopes).any()


def stale(archived, machines):
    """Whether the machine of an archived fit has other values than it began with and than it ended with."""
    before = archived.settings.values
    after = before | {name: float(f"{value:.4g}") for name, value in archived.found.items()}
    return Machine.load(archived.settings.machine, machines).constants() not in (before, after)


def test_the_machine_of_the_archived_fit_to_measured_figures_is_the_one_before_or_after_it(tmp_path):
    assert not stale(fit_of(MEASURED), ROOT / "conf" / "machine")
    shutil.copytree(ROOT / "conf" / "machine", tmp_path / "machine")
    path = tmp_path / "machine" / f"{MEASURED}.yaml"
    path.write_text(re.sub(r"(?m)^poll_ns: \{value: \S+,", "poll_ns: {value: 221,", path.read_text()))
    assert stale(fit_of(MEASURED), tmp_path / "machine")


def test_the_archived_fit_to_h200s_meets_the_goal_for_the_arm_that_it_did_not_see():
    archived = fit_of(MEASURED)
    held_out = archived.settings.where(arm=1)
    assert archived.settings.arms == ("m2n", "afdep")
    assert len(held_out) > 50
    refitted, simulated = (rms(archived.off_pct(kind, held_out)) for kind in ("refitted", "simulated"))
    assert refitted <= archived.settings.goal_pct < simulated


def test_the_records_of_two_h200s_give_the_figures_that_were_fitted_to():
    read = settings_of("fit", "fit=measured", "source=records/screen/h200")
    archived = fit_of("h200-nvlink").settings
    assert (read.cells, read.series) == (archived.cells, exchanges_of(read, archived))
    assert read.source.start_us == archived.source.start_us
    assert read.source.lines[1:] == archived.source.lines[1:] != ()


def exchanges_of(read, archived):
    """The archived rows with what their record lacks of the exchange."""
    pairs = zip(archived.series, read.series, strict=True)
    return tuple(
        replace(one, exchange=replace(other.exchange, transport_sms=one.exchange.transport_sms)) for one, other in pairs
    )


# What docs/cost-model.md says of the fit to the published table.
def test_the_fit_has_more_constants_than_its_row_can_tell_apart(fit):
    found = identification(fit)
    assert "identified" not in [found.verdict(name) for name in found.constants.index]
    told = sum(error <= fit.settings.identified_pct for error in found.direction_errors_pct)
    assert 0 < told < len(found.constants) / 2


@pytest.mark.parametrize("pair", ALIKE, ids="-".join)
def test_pairs_that_the_page_names_act_nearly_alike(fit, pair):
    found = identification(fit)
    assert found.correlation.loc[pair] > 0.85


def test_grid_sync_and_acquire_act_on_the_symmetric_arm_alone(fit):
    both = [fit.slopes_of(ALIKE[0], fit.settings.where(fitted=True, arm=arm)) for arm in (0, 1)]
    assert abs(both[1]).max() < 0.1 * abs(both[0]).max()


def gain(fit, **wanted):
    """What the refit leaves of the error of some cells."""
    after, before = (rms(fit.off_pct(kind, fit.settings.where(**wanted))) for kind in ("refitted", "simulated"))
    return after / before


def test_a_refit_halves_the_error_of_the_fitted_row_and_mends_little_of_the_others(fit):
    (fitted,) = {fit.settings.cells[at].row for at in fit.settings.where(fitted=True)}
    assert gain(fit, row=fitted) < 0.5
    assert sum(gain(fit, row=row) for row in range(6) if row != fitted) / 5 > 0.75
    (one_source,) = (row for row, one in enumerate(fit.settings.series) if one.row.layout == "1A3F")
    assert gain(fit, row=one_source, arm=0) > 1


def test_the_refitted_constants_leave_hidden_4096_low_at_8_and_32_tokens_alone(fit):
    (row,) = (row for row, one in enumerate(fit.settings.series) if one.row.hidden == 4096)
    low, many = (
        [at for tokens in counts for at in fit.settings.where(row=row, tokens=tokens)]
        for counts in ((8, 32), (512, 2048))
    )
    assert fit.off_pct("refitted", low).max() < -5
    assert abs(fit.off_pct("refitted", many)).max() < 5
    assert abs(fit.off_pct("refitted", fit.settings.where(fitted=True))).max() < 5


def test_the_pages_name_no_figure_of_the_fit():
    text = (ROOT / "docs" / "cost-model.md").read_text("utf-8")
    assert "../reports/fit/h100-nvlink.md" in text
    assert not re.findall(r"\d+(?:\.\d+)? ?%", text)


def test_the_effect_of_an_unused_constant_is_nil(fit):
    every = range(72)
    assert not fit.slopes_of(["threads_per_sm", "shared_bytes_per_sm"], every).any()
    first = [at for row in range(6) for at in fit.settings.where(row=row, tokens=1)]
    hbm, link = fit.slopes_of(["hbm_gb_per_s", "nvlink_latency_ns"], first)
    assert abs(hbm).max() < 0.01 < 0.05 < link.min()
