import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afdep import PRESETS, Arm, ArmError, ControlError, controls

overrides = st.dictionaries(st.sampled_from(controls.NAMES), st.integers(0, 1), max_size=6)
afdep_presets = st.sampled_from([name for name, preset in PRESETS.items() if preset.protocol == "afdep"])


def spelled(base: str, switches: dict[str, int]) -> str:
    return f"{base}[{','.join(f'{name}={value}' for name, value in switches.items())}]" if switches else base


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_reads_back_from_its_name(name: str) -> None:
    arm = Arm.parse(name)
    assert (str(arm), arm.protocol, arm.switches) == (name, PRESETS[name].protocol, PRESETS[name].switches)


def test_the_main_table_arm_differs_from_afdep_in_the_union_prefix_alone() -> None:
    assert Arm.parse("afdep@bd4db4da").switches == (("AFDEP_UNION_REDUCE_PREFIX", 1),)
    assert Arm.parse("afdep").switches == ()


@given(afdep_presets, overrides)
def test_the_canonical_name_reads_back_to_an_equal_arm(base: str, switches: dict[str, int]) -> None:
    arm = Arm.parse(spelled(base, switches))
    assert Arm.parse(str(arm)) == arm


@given(afdep_presets, overrides, st.randoms())
def test_the_order_of_switches_does_not_matter(base: str, switches: dict[str, int], shuffler: random.Random) -> None:
    items = list(switches.items())
    shuffler.shuffle(items)
    assert Arm.parse(spelled(base, dict(items))) == Arm.parse(spelled(base, switches))


@given(afdep_presets, overrides)
def test_overrides_win_over_the_preset_and_nothing_else_changes(base: str, switches: dict[str, int]) -> None:
    expected = dict(PRESETS[base].switches) | switches
    values = dict(Arm.parse(spelled(base, switches)).switches)
    assert {name: values.get(name, 0) for name in controls.NAMES} == dict.fromkeys(controls.NAMES, 0) | expected


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("afdep[AFDEP_UNION_NOTIFY=0]", "afdep"),
        ("afdep@bd4db4da[AFDEP_UNION_REDUCE_PREFIX=1]", "afdep@bd4db4da"),
        ("afdep@bd4db4da[AFDEP_UNION_REDUCE_PREFIX=0]", "afdep@bd4db4da[AFDEP_UNION_REDUCE_PREFIX=0]"),
    ],
)
def test_a_switch_that_changes_nothing_is_dropped_from_the_name(spelling: str, name: str) -> None:
    assert str(Arm.parse(spelling)) == name


@pytest.mark.parametrize(
    "text",
    ["m2n-tuned", "nccl", "deepep", "afdp", "AFDEP", "", "afdep@12345678", "afdep[", "afdep]", "afdep [X=1]", "m2n\n"],
)
def test_an_arm_that_is_not_built_here_is_refused_with_the_valid_names(text: str) -> None:
    with pytest.raises(ArmError) as caught:
        Arm.parse(text)
    assert repr(text) in caught.value.problem
    assert all(name in caught.value.next_step for name in PRESETS)


@pytest.mark.parametrize("read", [False, True, None, 12.0], ids=repr)
def test_what_yaml_read_instead_of_a_name_is_refused_and_shown(read: object) -> None:
    with pytest.raises(ArmError, match=f"{type(read).__name__} {read!r}"):
        Arm.parse(read)


def test_the_baseline_takes_no_switches() -> None:
    with pytest.raises(ArmError, match="expected no switches, received AFDEP_UNION_NOTIFY"):
        Arm.parse("m2n[AFDEP_UNION_NOTIFY=1]")


def test_a_control_named_twice_is_refused() -> None:
    with pytest.raises(ArmError, match="AFDEP_UNION_NOTIFY twice"):
        Arm.parse("afdep[AFDEP_UNION_NOTIFY=1,AFDEP_UNION_NOTIFY=1]")


@pytest.mark.parametrize(
    "switch", ["AFDEP_UNION_NOTIFY=2", "AFDEP_UNION_NOTIFY", "AFDEP_PUSH_MAX_BUCKET=0", "", " "], ids=repr
)
def test_an_unknown_control_or_value_is_refused(switch: str) -> None:
    with pytest.raises(ControlError):
        Arm.parse(f"afdep[{switch}]")


@given(overrides)
def test_the_environment_gives_the_arm_that_its_controls_name(switches: dict[str, int]) -> None:
    environ = {name: str(value) for name, value in switches.items()} | {"PATH": "/bin"}
    assert Arm.of_environ(environ) == Arm.parse(spelled("afdep", switches))


def test_an_unknown_control_in_the_environment_is_refused() -> None:
    with pytest.raises(ControlError, match="AFDEP_UNION_NOTIFY"):
        Arm.of_environ({"AFDEP_UNION_NOTIFI": "1"})
