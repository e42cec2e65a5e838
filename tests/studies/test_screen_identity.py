"""An arm is what the loaded library says it is; one that is another, or the same twice, is void."""

import dataclasses

import pytest

from harness.core.identity import Identity
from tests.harness.conftest import git, make_bench, set_word

ONE_IDENTITY = "arm=[afdep@bd4db4da,'afdep[AFDEP_UNION_REDUCE_PREFIX=1]']"
LIES = {
    "m2n": {"digest": "n00000000"},
    "afdep": {"protocol": "m2n"},
    "afdep@bd4db4da": {"switches": {"AFDEP_UNION_NOTIFY": 1}},
}


@pytest.fixture(scope="module")
def liars(tmp_path_factory):
    """A screen whose libraries report another identity when measured than when planned, each in one field."""
    bench = make_bench(tmp_path_factory.mktemp("liars") / "repository")
    bench.behave(*({"arm": arm, "do": "report", "identity": identity} for arm, identity in LIES.items()))
    assert bench.screen("tokens=[1]", f"arm=[{','.join(LIES)}]") == 3
    return bench


@pytest.mark.parametrize("arm", LIES)
def test_a_library_that_reports_another_identity_is_void(liars, arm):
    (void,) = [one for one in liars.records() if one.arm == arm]
    (field,) = LIES[arm]
    assert (void.status, void.latency_us) == ("void", None)
    assert void.reason.startswith(f"{field}: the plan expects")


def test_two_arms_with_one_identity_are_void_without_running(bench):
    assert bench.screen(ONE_IDENTITY) == 3
    assert {one.status for one in bench.records()} == {"void"}
    assert "have one identity" in bench.records()[0].reason
    assert {one.seconds for one in bench.records()} <= {None, 0.0}


def test_a_declared_aa_may_measure_one_identity_twice(bench):
    assert bench.screen("arm=[m2n,m2n]", "screen.declared_aa=true") == 0
    assert {one.status for one in bench.records()} == {"ok"}
    assert "0.0%" in bench.text


def test_one_arm_of_two_trees_is_compared_by_its_digests(bench):
    set_word(bench.root, "two")
    assert bench.screen("arm=[m2n]", "trees.baseline=HEAD", "tokens=[1]", "backend.pairs=4") == 0
    records = bench.records()
    digests = {one.tree: one.native_digest for one in records}
    assert len(set(digests.values())) == len(digests) == 2
    slots = {(one.tree == "working", one.pair): one.slot for one in records}
    assert [slots[False, pair] for pair in range(4)] == ["slot0", "slot0", "slot1", "slot1"]
    assert [slots[True, pair] for pair in range(4)] == ["slot1", "slot1", "slot0", "slot0"]


def test_two_trees_with_the_same_native_sources_are_void(bench):
    git(bench.root, "commit", "--allow-empty", "-qm", "no change")
    assert bench.screen("arm=[m2n]", "trees.baseline=HEAD~1", "trees.candidate=HEAD") == 3


@pytest.mark.parametrize("change", [{"digest": "n2"}, {"protocol": "afdep"}, {"switches": (("A", 1),)}])
def test_a_difference_names_its_field(change):
    planned = Identity("n1", "m2n", ())
    (field,) = change
    assert planned.difference(dataclasses.replace(planned, **change)).startswith(f"{field}: the plan expects")
    assert planned.difference(planned) is None


def test_a_switch_counts_at_zero_where_that_is_not_its_default():
    report = {"digest": "n1", "protocol": "afdep", "switches": {"B": 0, "A": 1}, "target": "sim"}
    assert Identity.from_report(report) == Identity("n1", "afdep", (("A", 1), ("B", 0)))
    assert Identity.from_report(report) != Identity.from_report({**report, "switches": {"A": 1}})
