"""The plan: one hash for what decides the figures, and a file that nobody can alter unnoticed."""

import dataclasses
import json
from pathlib import Path

import pytest

from harness import plan as plans
from harness import planning
from harness.compose import compose, load_options
from harness.decode import decode
from harness.errors import PlanError
from harness.plan import Plan
from harness.screen_config import Backend, DeviceTiming, Floor
from harness.validate import screen_config
from tests.harness.conftest import SMALL, make_bench
from tests.harness.samples import plan

GOLDEN = Path(__file__).parent / "golden" / "plan.json"


def test_the_plan_file_is_the_golden_one(tmp_path):
    saved = plans.save(tmp_path, plan(rows=2, pairs=2), "2026-01-02T00:00:00+00:00", "python -m harness screen")
    assert (tmp_path / f"{saved.plan_hash}.json").read_text() == GOLDEN.read_text()


def test_the_golden_plan_has_its_hash():
    assert plan(rows=2, pairs=2).plan_hash == json.loads(GOLDEN.read_text())["plan_hash"]


def test_the_hash_leaves_out_time_and_command(tmp_path):
    first = plans.save(tmp_path / "a", plan(), "2026-01-02T00:00:00+00:00", "one")
    second = plans.save(tmp_path / "b", plan(), "2027-01-02T00:00:00+00:00", "two")
    assert first.plan_hash == second.plan_hash


def test_the_hash_leaves_out_the_place(tmp_path):
    plans_made = []
    for name in ("here", "somewhere-else-entirely"):
        bench = make_bench(tmp_path / name)
        config = screen_config(compose("screen", SMALL), load_options("routing"))
        plans_made.append(planning.make(config, bench.root, bench.out("trees"), bench.environ)[0])
    assert plans_made[0].plan_hash == plans_made[1].plan_hash
    assert str(tmp_path) not in repr(plans_made)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Backend)])
def test_every_setting_of_the_backend_is_in_the_hash(name):
    base = plan()
    device = DeviceTiming("host", 0, 12, 3, 10, "auto", Floor(500.0, 343.0))
    other = {str: "other", int: 7, bool: False, type(None): device}[type(getattr(base.backend, name))]
    changed = dataclasses.replace(base, backend=dataclasses.replace(base.backend, **{name: other}))
    assert changed.plan_hash != base.plan_hash


def test_harness_trees_and_arms_are_in_the_hash():
    base = plan()
    tree = dataclasses.replace(base.trees[0], source_digest="t2")
    changes = [{"harness_digest": "h2"}, {"trees": (tree,)}, {"arms": base.arms[::-1]}, {"declared_aa": True}]
    assert len({base.plan_hash, *(dataclasses.replace(base, **change).plan_hash for change in changes)}) == 5


def test_a_plan_survives_its_file(tmp_path):
    saved = plans.save(tmp_path, plan(rows=4, pairs=4), "now", "command")
    assert plans.load(tmp_path / f"{saved.plan_hash}.json").plan == plan(rows=4, pairs=4)


def test_saving_a_plan_again_keeps_the_first_file(tmp_path):
    plans.save(tmp_path, plan(), "first", "command")
    assert plans.save(tmp_path, plan(), "second", "command").created == "first"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tokens": 8', '"tokens": 9'),
        ('"version": 1', '"version": 2'),
        ('"screen": "main"', '"scren": "main"'),
        ("}", ""),
    ],
)
def test_an_altered_plan_file_is_refused(tmp_path, old, new):
    path = tmp_path / f"{plans.save(tmp_path, plan(), 'now', 'command').plan_hash}.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(PlanError, match="expected"):
        plans.load(path)


def test_keys_of_cells_are_distinct():
    one = plan(rows=4, pairs=4)
    keys = [one.cell_key(process, cell) for process in one.processes for cell in one.cells]
    assert len(set(keys)) == len(keys) == 4 * 4 * 2 * 2


@pytest.mark.parametrize(
    "data", [{"tokens": "1", "bucket": 1}, {"tokens": 1}, {"tokens": 1, "bucket": 1, "x": 1}, [1, 1]]
)
def test_plain_data_with_other_fields_or_types_is_refused(data):
    with pytest.raises(ValueError, match="expected"):
        decode(plans.Cell, data)


def test_a_hash_never_reads_as_a_number():
    one: Plan = plan()
    assert [key[0] for key in (one.plan_hash, one.process_key(one.processes[0]))] == ["p", "q"]
    assert one.cell_key(one.processes[0], one.cells[0])[0] == "k"
