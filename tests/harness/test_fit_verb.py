"""The verb `fit`: its record, page and machine file; the kept fit, and what docs/cost-model.md says of it."""

import dataclasses
import re

import pyarrow.parquet as pq
import pytest

from afdep import Machine
from harness.compose import compose
from harness.errors import HarnessError
from harness.fit.figures import rms_pct
from harness.fit.identify import identify
from harness.fit.study import Study
from harness.records import RecordError
from harness.records.fits import FitRun, FitStep, read_fit, write_fit
from harness.records.typed import read_table, write_table
from harness.verbs import fit as verb
from harness.workspace import REPOSITORY
from tests.harness.fits import AROUND, copied_repository
from tests.harness.kept import comparison, shared

NAME = "h100-nvlink"
KEPT = REPOSITORY / "records" / "fit" / NAME
SMALL = ["layout=2A2F", "hidden=2048", "dtype=bf16", "routing=random", "tokens=[1]", "jobs=2", "fit.most_exchanges=1",
         "backend.num_exchanges=2", "fit.evaluations=2"]  # fmt: skip
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
COST_MODEL = REPOSITORY / "docs" / "cost-model.md"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A repository in which a small fit was kept, and wrote a machine file."""
    root = copied_repository(tmp_path_factory.mktemp("fit"))
    lines: list[str] = []
    around = dataclasses.replace(AROUND, repository=root, print_line=lines.append)
    assert verb.run([*SMALL, "keep=small", "write=conf/machine/refitted.yaml"], around) == 0
    return around, lines


def test_a_fit_is_recorded_reported_and_told(small):
    around, lines = small
    study = Study(read_fit(around.repository / "records" / "fit" / "small"))
    assert study.simulated_us.shape == study.refitted_us.shape == (1, 1, 2)
    assert len(study.slopes) == len(study.constants)
    page = (around.repository / "reports" / "fit" / "small.md").read_text()
    assert page.startswith("# Fit small of h100-nvlink")
    assert page.count("No slope was taken of `sm_load_l1_gb_per_s`: ") == 1
    assert "written: records/fit/small, reports/fit/small.md" in lines[-1]


def test_the_machine_that_is_fitted_stays_and_the_written_one_differs_in_the_fitted_constants_alone(small):
    folder = small[0].repository / "conf" / "machine"
    fitted, other = (Machine.load(name, folder) for name in (NAME, "refitted"))
    assert (folder / f"{NAME}.yaml").read_bytes() == (REPOSITORY / "conf/machine" / f"{NAME}.yaml").read_bytes()
    changed = [(one, new) for one, new in zip(fitted.table, other.table, strict=True) if one != new]
    assert {one.name for one, _ in changed} == set(FITTED)
    assert all(f"by the verb fit, from {one.value:g}" in new.source for one, new in changed)


def test_what_is_there_is_never_replaced(small):
    for text in ("keep=small", "write=conf/machine/refitted.yaml"):
        with pytest.raises(HarnessError, match=r"expected .* new"):
            verb.run([*SMALL, text], small[0])


def test_a_second_fit_gives_the_same_record_in_one_process(small):
    around = small[0]
    verb.run([*SMALL, "jobs=1", "keep=again"], around)
    first, second = (read_fit(around.repository / "records" / "fit" / name) for name in ("small", "again"))
    assert dataclasses.replace(second, run=first.run) == first


@pytest.mark.parametrize("name", ["cells", "slopes", "steps", "refits"])
def test_a_damaged_record_is_refused(tmp_path, name):
    write_fit(tmp_path / "fit", read_fit(KEPT))
    path = tmp_path / "fit" / f"{name}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(RecordError, match="content hash"):
        read_fit(tmp_path / "fit")


@pytest.mark.parametrize(("version", "kind", "what"), [(2, FitStep, "version"), (1, FitRun, "schema")])
def test_a_table_of_another_version_or_kind_is_refused(tmp_path, version, kind, what):
    path = write_table(tmp_path, "steps", version, [FitStep(evaluation=1, rms_pct=1.0, cost=1.0, values=(1.0,))])
    assert read_table(path, version, FitStep)[0].values == (1.0,)
    with pytest.raises(RecordError, match=f"steps.parquet: {what}: expected"):
        read_table(path, 1, kind)


@pytest.fixture(scope="module")
def kept():
    return Study(read_fit(KEPT))


def test_the_kept_page_is_the_one_of_the_kept_record(kept, tmp_path):
    written = verb.report(kept.fit, NAME, tmp_path)
    folder = REPOSITORY / "reports" / "fit"
    assert (folder / f"{NAME}.md").read_text("utf-8") == written[0].read_text("utf-8")
    assert all((folder / path.name).is_file() for path in written)


def test_the_kept_fit_is_of_the_machine_as_it_is_and_of_the_kept_table(kept):
    no_effect = compose("fit", [])["fit"]["no_effect"]
    studied = {name: value for name, value in Machine.load(NAME).constants().items() if name not in no_effect}
    assert {one.name: one.value for one in kept.fit.constants} == studied
    cells = [(own.baseline_us, own.candidate_us) for _, own, _ in shared(comparison("main-table"))]
    ours = [(one.simulated_baseline_us, one.simulated_candidate_us) for one in kept.fit.cells]
    assert [pytest.approx(pair, rel=1e-12) for pair in cells] == ours


def test_the_constants_that_the_machine_file_calls_fitted_are_those_of_the_kept_fit(kept):
    called = [one.name for one in Machine.load(NAME).table if one.source.startswith("fitted on")]
    assert sorted(one.name for one in kept.free) == sorted(called) == sorted(FITTED)


def test_the_kept_fit_holds_every_row_out_but_one(kept):
    assert [kept.rows[row].hidden for row in kept.fitted_rows] == [2048]
    assert len(kept.rows) == 6
    assert kept.slopes.shape == (len(kept.constants), 6, 6, 2)


# What docs/cost-model.md says of the kept fit.
def test_the_fit_has_more_constants_than_its_row_can_tell_apart(kept):
    found = identify(kept)
    verdicts = [found.verdict(index) for index in range(len(found.names))]
    assert "identified" not in verdicts
    assert 0 < sum(error <= found.identified_pct for error in found.direction_errors_pct) < len(found.names) / 2


@pytest.mark.parametrize("pair", ALIKE, ids="-".join)
def test_pairs_that_the_page_names_act_nearly_alike(kept, pair):
    found = identify(kept)
    first, second = map(found.names.index, pair)
    assert found.correlation[first, second] > 0.85


def test_grid_sync_and_acquire_act_on_the_symmetric_arm_alone(kept):
    both = kept.slopes[list(map(kept.constants.index, ALIKE[0]))][:, kept.fitted_rows]
    assert abs(both[..., 1]).max() < 0.1 * abs(both[..., 0]).max()


def gain(kept, row, arms=slice(None)):
    """What the refit leaves of the error of a row."""
    before, after = (
        rms_pct(us[row][:, arms], kept.published.us[row][:, arms]) for us in (kept.simulated_us, kept.refitted_us)
    )
    return after / before


def test_a_refit_halves_the_error_of_the_fitted_row_and_mends_little_of_the_others(kept):
    (fitted,) = kept.fitted_rows
    assert gain(kept, fitted) < 0.5
    assert sum(gain(kept, row) for row in range(6) if row != fitted) / 5 > 0.75
    (one_source,) = (index for index, row in enumerate(kept.rows) if row.layout == "1A3F")
    assert gain(kept, one_source, arms=0) > 1


def test_the_refitted_constants_leave_hidden_4096_low_at_8_and_32_tokens_alone(kept):
    (row,) = (index for index, one in enumerate(kept.rows) if one.hidden == 4096)
    off = 100 * (kept.refitted_us / kept.published.us - 1)
    low, many = ([kept.tokens.index(count) for count in counts] for counts in ((8, 32), (512, 2048)))
    assert off[row][low].max() < -5
    assert abs(off[row][many]).max() < 5
    assert abs(off[kept.fitted_rows[0]]).max() < 5


def test_the_pages_name_no_figure_of_the_fit():
    text = COST_MODEL.read_text("utf-8")
    assert "../reports/fit/h100-nvlink.md" in text
    assert not re.findall(r"\d+(?:\.\d+)? ?%", text)


def test_the_effect_of_an_unused_constant_is_nil(kept):
    silent = [kept.constants.index(name) for name in ("threads_per_sm", "shared_bytes_per_sm")]
    assert not kept.slopes[silent].any()
    hbm, link = (kept.slopes[kept.constants.index(name), :, 0] for name in ("hbm_gb_per_s", "nvlink_latency_ns"))
    assert abs(hbm).max() < 0.01 < 0.05 < link.min()
