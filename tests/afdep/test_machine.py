import re
from pathlib import Path

import pytest

from afdep import Machine, MachineError
from afdep.tree import root

GOOD = "nvlink_latency_ns: {value: 600, unit: ns, source: measured}\n"
MACHINE_FOLDER = root() / "conf" / "machine"
COST_MODEL = root() / "vendor" / "simgpu" / "machine.hpp"


def load(folder: Path, text: str) -> Machine:
    (folder / "toy.yaml").write_text(text)
    return Machine.load("toy", folder)


@pytest.mark.parametrize("path", sorted(MACHINE_FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_machine_has_exactly_the_constants_of_the_cost_model(path: Path) -> None:
    names = re.findall(r"\bX\((\w+)\)", COST_MODEL.read_text())
    assert sorted(Machine.load(path.stem).constants()) == sorted(names)


def test_the_default_machine_is_shipped() -> None:
    assert Machine.load("h100-nvlink").name == "h100-nvlink"


def test_constants_are_floats_by_name(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).constants() == {"nvlink_latency_ns": 600.0}


def test_a_constant_keeps_its_unit_and_source(tmp_path: Path) -> None:
    (constant,) = load(tmp_path, GOOD).table
    assert (constant.unit, constant.source) == ("ns", "measured")


def test_an_unknown_machine_is_refused_with_the_valid_names(tmp_path: Path) -> None:
    load(tmp_path, GOOD)
    with pytest.raises(MachineError, match="received 'tyo'") as caught:
        Machine.load("tyo", tmp_path)
    assert caught.value.next_step == "did you mean toy? Valid: toy."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a_ns: {value: 1, unit: ns}", "a_ns: .* missing source and unknown none"),
        ("a_ns: {value: 1, unit: ns, source: x, note: y}", "a_ns: .* missing none and unknown note"),
        ("a_ns: {vaule: 1, unit: ns, source: x}", "missing value and unknown vaule"),
        ("a_ns: 5", "'a_ns' with value, unit, source, received 5"),
        ("1: {value: 1, unit: ns, source: x}", "expected 1 with"),
        ("a_ns: {value: 1e-3, unit: ns, source: x}", "a_ns.value: expected a finite number, received the str '1e-3'"),
        ("a_ns: {value: yes, unit: ns, source: x}", "received the bool True"),
        ("a_ns: {value: .inf, unit: ns, source: x}", "received the float inf"),
        ("a_ns: {value: 1, unit: 7, source: x}", "a_ns.unit: expected words, received the int 7"),
        ("a_ns: {value: 1, unit: ns, source: ' '}", "a_ns.source: expected words"),
        ("- a", "expected a mapping of constants, received list"),
        ("", "received NoneType"),
        ("a: [", "expected YAML"),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(MachineError, match=complaint) as caught:
        load(tmp_path, text)
    assert "toy.yaml" in caught.value.problem


def test_required_constants_list_the_missing_and_the_unknown(tmp_path: Path) -> None:
    machine = load(tmp_path, GOOD)
    machine.require(["nvlink_latency_ns"])
    with pytest.raises(MachineError, match="missing poll_ns and unknown nvlink_latency_ns"):
        machine.require(["poll_ns"])
