"""A plan file is immutable: its hash covers what decides a figure, and what cannot be trusted is named."""

import json
from dataclasses import dataclass, replace

import pytest

from harness.core import plan as plans
from harness.core.codec import decode, encode
from harness.core.identity import Identity
from harness.core.plan import PlannedArm, Tree
from harness.errors import PlanError
from harness.study import Batch, Block


def test_a_plan_reads_back_as_it_was_written(bench):
    file = bench.plan(["ok", "void:x"], ["ok"], on_loss="void", rounds=2)
    assert plans.load(file.path) == file
    assert file.path.stem == file.plan.plan_hash


CHANGES = {
    "study": lambda plan: replace(plan, study="other"),
    "name": lambda plan: replace(plan, name="other"),
    "settings": lambda plan: replace(plan, settings=replace(plan.settings, rounds=2)),
    "tree": lambda plan: replace(plan, trees=(replace(plan.trees[0], library_digest="t0"),)),
    "native": lambda plan: replace(plan, trees=(Tree("working", (("sim", "n0"),), plan.trees[0].library_digest),)),
    "arm": lambda plan: replace(plan, arms=(PlannedArm("m2n", 0, "sim", Identity("n0", "m2n")),)),
    "measuring": lambda plan: replace(plan, measuring_digest="m0"),
    "machine": lambda plan: replace(plan, machine_digest="k0"),
    "trials": lambda plan: replace(plan, blocks=plan.blocks[:1] * 2),
    "order": lambda plan: replace(plan, blocks=(Block(plan.blocks[0].batches[::-1]),)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_decides_a_figure_changes_the_hash(bench, name):
    plan = bench.plan(["ok"], ["void:x"]).plan
    assert CHANGES[name](plan).plan_hash != plan.plan_hash


def test_neither_time_nor_command_nor_path_changes_the_hash(bench, tmp_path):
    plan = bench.plan(["ok"]).plan
    other = plans.save(tmp_path / "elsewhere", plan, "another time", "another command")
    assert other.plan_hash == plan.plan_hash


@dataclass(frozen=True)
class Before:
    """Some settings."""

    name: str
    rounds: int = 1


@dataclass(frozen=True)
class After:
    """The same with a field that came later."""

    name: str
    rounds: int = 1
    domain: int | None = None


def test_a_field_that_is_added_with_a_default_changes_no_plan():
    assert encode(Before("x", 2)) == encode(After("x", 2)) == {"name": "x", "rounds": 2}
    assert decode(After, encode(Before("x", 2))) == After("x", 2)
    assert encode(After("x", domain=4)) == {"name": "x", "domain": 4}


def altered(file, change) -> None:
    data = json.loads(file.path.read_text())
    change(data)
    file.path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["plan"].update(name="other"),
        lambda data: data["plan"].update(unknown=1),
        lambda data: data["plan"].pop("trees"),
        lambda data: data["plan"].update(study="nothere"),
        lambda data: data["plan"].update(format=3),
        lambda data: data.update(plan=[]),
    ],
    ids=["altered", "a field too many", "a field too few", "no such study", "another format", "no plan"],
)
def test_a_plan_that_cannot_be_trusted_is_named(bench, change):
    file = bench.plan(["ok"])
    altered(file, change)
    with pytest.raises(PlanError, match=file.path.name):
        plans.load(file.path)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[1]"])
def test_a_round_that_cannot_be_read_is_named(bench, content):
    file = bench.plan(["ok"], rounds=2)
    path = file.path.with_name(f"{file.plan_hash}.round1.json")
    path.write_bytes(content)
    with pytest.raises(PlanError, match=f"plan {path.name}: expected a plan file, received: .*\nPut it back") as caught:
        list(file.rounds())
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"{}", b"[]"])
def test_planning_again_replaces_a_damaged_plan(bench, content):
    file = bench.plan(["ok"])
    file.path.write_bytes(content)
    assert bench.plan(["ok"]) == file


def test_a_sound_plan_is_never_written_again(bench):
    file = bench.plan(["ok"])
    before = file.path.read_bytes(), file.path.stat().st_ino
    plans.save(bench.folder / "plans", file.plan, "later", "another command")
    assert (file.path.read_bytes(), file.path.stat().st_ino) == before


def test_equal_trials_of_different_trees_have_keys_of_their_own(bench):
    plan = bench.plan(["ok"]).plan
    two = replace(plan, trees=(plan.trees[0], Tree("HEAD", (("sim", "n0"),), "t0")))
    batch = plan.blocks[0].batches[0]
    keys = {two.trial_key(replace(batch, tree=tree), batch.trials[0]) for tree in range(2)}
    assert len(keys) == 2


def test_arms_of_one_identity_void_a_plan_without_an_aa(bench):
    plan = bench.plan(["ok"]).plan
    arms = tuple(PlannedArm(name, 0, "sim", Identity("n0", "m2n")) for name in ("a", "b"))
    assert replace(plan, arms=arms).shared_identity() is None  # these settings compare no arms
    compared = replace(plan, arms=arms, settings=type("S", (), {"declared_aa": False})())
    assert compared.shared_identity() == "arms a and b have one identity (n0) without an A/A"


def test_a_batch_says_only_what_differs_from_its_default():
    assert encode(Batch((1,))) == {"trials": [1]}
    assert encode(Batch((1,), layout="1A1F", pair=1)) == {"trials": [1], "layout": "1A1F", "pair": 1}


@pytest.mark.parametrize("minutes", [1, 1.0])
def test_a_number_is_one_number_however_it_is_written(bench, minutes):
    plan = bench.plan(["ok"]).plan
    (block,) = plan.blocks
    blocks = (replace(block, batches=(replace(block.batches[0], expected_s=60 * minutes),)),)
    file = plans.save(bench.folder / "plans", replace(plan, blocks=blocks), "now", "command")
    assert plans.load(file.path).plan_hash == file.plan_hash == replace(plan, blocks=blocks).plan_hash
