"""The page of a node: measured changes beside published ones, each kind in its own columns, and what the page names."""

import dataclasses
import json

import pytest

from harness import arms, pages, published
from harness.screen_config import Row
from harness.errors import PublishedError
from harness.nodes import page
from harness.published import Point
from harness.records import read
from harness.records.validations import read_validation
from harness.tables import percent
from harness.workspace import REPOSITORY, Workspace
from tests.harness import device_records
from tests.harness.device_records import FREE, HOST, device_plan, lay

US = {"m2n": 30.0, "afdep": 15.0, "afdep@bd4db4da": 21.0, "nccl": 24.0}
ROWS = (Row("2A2F", 2048, "bf16", "random", None, 128), Row("3A1F", 2048, "bf16", "random", None, 128))
TABLE = published.load("result-main")
NODES = ("h200-four", "h200-eight")


def laid(folder, monkeypatch, gpus=4, table="result-main", device=HOST, **how):
    """The parts of a folder with one plan of all arms."""
    monkeypatch.setattr(device_records, "FACTS", json.dumps({"gpus": gpus, "device": "NVIDIA H200"}))
    plan = dataclasses.replace(device_plan(*ROWS, device=device, arms=tuple(US)), published=table)
    return pages.parts_of(Workspace(lay(folder, plan, lambda place: US[place.arm], **how)))


def columns(text, heading):
    """The columns of the table under a heading, by name."""
    lines = text.partition(f"### {heading}\n\n")[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: [row[at] for row in cells[2:]] for at, name in enumerate(cells[0])}


def test_measured_changes_stand_beside_the_published_ones_in_columns_of_their_own(tmp_path, monkeypatch):
    found = columns(page.text(laid(tmp_path / "h200-four", monkeypatch)), "2A2F, 2,048, random")
    assert found["`m2n` measured, us"][0] == "30.0 (30.0\u201330.0)"
    assert found["`afdep` change, measured"] == ["\u221250.0% (2/2)"] * 2
    assert found["`afdep@bd4db4da` change, measured"] == ["\u221230.0% (2/2)"] * 2
    cells = [TABLE.cells[Point("2A2F", 2048, "bf16", "random", tokens)] for tokens in (1, 8)]
    assert found["`afdep@bd4db4da` change, published, 4xH100"] == [percent(cell.change_pct) for cell in cells]
    assert found["`m2n` published, 4xH100, us"] == [f"{cell.baseline_us:.1f}" for cell in cells]


def test_round_trips_published_of_four_h200s_stand_beside_the_row_that_has_them(tmp_path, monkeypatch):
    text = page.text(laid(tmp_path / "h200-four", monkeypatch))
    found = columns(text, "2A2F, 2,048, random")
    assert found["`m2n` published, 4xH200, us"] == ["28.2", "31.4"]
    assert found["`afdep` published, 4xH200, us"] == ["19.8", "23.3"]
    assert "`afdep` published, 4xH200, us" not in columns(text, "3A1F, 2,048, random")  # there it collects a view


@pytest.mark.parametrize(
    ("arm", "us"),
    [("fastafd_m2n", [28.2, 31.4, 32.4, 40.2, 73.0, 188.0]), ("afdep", [19.8, 23.3, 24.6, 32.3, 66.2, 181.3])],
)
def test_the_published_record_has_the_round_trips_of_four_h200s(arm, us):
    found = published.absolutes(page.H200_TABLE, arm, page.H200_MACHINE)
    points = [Point("2A2F", 2048, "bf16", "random", tokens) for tokens in (1, 8, 32, 128, 512, 2048)]
    assert [found[point] for point in points] == us


@pytest.mark.parametrize(("arm", "machine"), [("fastafd", "4xH200"), ("afdep", "8xH200")])
def test_an_arm_or_a_machine_that_was_not_published_is_an_error(arm, machine):
    with pytest.raises(PublishedError, match=f"expected round trips of {arm} on {machine}"):
        published.absolutes(page.H200_TABLE, arm, machine)


@pytest.mark.parametrize("gpus", [4, 8])
def test_the_page_names_the_gpus_and_that_each_has_one_rank(tmp_path, monkeypatch, gpus):
    text = page.text(laid(tmp_path / "node", monkeypatch, gpus))
    assert text.startswith(f"# Measured on {gpus} x NVIDIA H200, one rank a GPU\n")
    assert f"- ran on {gpus} x NVIDIA H200; one rank per GPU" in text


def test_nothing_published_stands_beside_a_plan_that_names_no_table(tmp_path, monkeypatch):
    text = page.text(laid(tmp_path / "node", monkeypatch, 8, None, FREE))
    assert "## 24 transport SMs, free-running replays of at least 2,000 us" in text
    assert not any("published" in name for name in columns(text, "2A2F, 2,048, random"))


def test_a_pair_that_was_not_run_is_listed_and_the_other_one_counts(tmp_path, monkeypatch):
    text = page.text(laid(tmp_path / "node", monkeypatch, end=lambda place, pair: "missing" if pair else "ok"))
    assert columns(text, "2A2F, 2,048, random")["`afdep` change, measured"] == ["\u221250.0% (1/1)"] * 2
    assert "- missing: 2A2F, 2,048, random, nccl, pair 2, T = 1, 8: not run" in text


def test_a_row_without_a_record_has_a_table_of_published_figures_alone(tmp_path, monkeypatch):
    end = lambda place, pair: "missing" if place.series.row.layout == "3A1F" else "ok"  # noqa: E731
    found = columns(page.text(laid(tmp_path / "node", monkeypatch, end=end)), "3A1F, 2,048, random")
    assert list(found)[1:] == [
        *("`m2n` published, 4xH100, us", "`afdep@bd4db4da` published, 4xH100, us"),
        *("`afdep@bd4db4da` change, published, 4xH100", "`m2n` published, 4xH200, us"),
    ]


def test_the_command_writes_the_page_of_a_folder(tmp_path, monkeypatch):
    parts = laid(tmp_path / "node", monkeypatch)
    assert page.main([str(tmp_path / "node"), str(tmp_path / "reports" / "node.md")]) == 0
    assert (tmp_path / "reports" / "node.md").read_text("utf-8") == page.text(parts)


def digests(name):
    """Native digests of what is kept of a node, and of the screens of two GPUs."""
    kept = REPOSITORY / "records"
    screens = {folder: read(sorted((kept / folder).glob("records/*/*.parquet"))).records for folder in (name, "h200")}
    found = {
        folder: {one.loaded_digest for one in own if not arms.is_external(one.arm)} for folder, own in screens.items()
    }
    trials = kept / "validation" / f"{name}.parquet"
    if trials.is_file():
        found["validation"] = {one.native_digest for one in read_validation(trials)} - {None}
    return found


@pytest.mark.parametrize("name", NODES)
def test_the_page_of_a_kept_node_is_that_of_its_records_and_of_the_kernels_of_the_other_screens(name):
    folder, written = REPOSITORY / "records" / name, REPOSITORY / "reports" / f"{name}.md"
    assert folder.is_dir() == written.is_file()
    if not folder.is_dir():
        pytest.skip(f"records/{name}: not run yet; bash slurm/h200-nodes.sh prepares it")
    assert written.read_text("utf-8") == page.text(pages.parts_of(Workspace(folder)))
    found = digests(name)
    assert all(one == found["h200"] for one in found.values())
