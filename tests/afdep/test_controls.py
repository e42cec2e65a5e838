import pytest
from hypothesis import given
from hypothesis import strategies as st

from afdep import ControlError, controls

words = st.integers(0, 2 ** len(controls.CONTROLS) - 1)


def test_names_and_bits_are_distinct_and_bits_follow_the_table() -> None:
    assert len(set(controls.NAMES)) == len(controls.CONTROLS)
    assert [control.bit for control in controls.CONTROLS] == list(range(len(controls.CONTROLS)))


def test_only_the_reduce_prefix_may_differ_between_ranks() -> None:
    assert [c.name for c in controls.CONTROLS if c.scope == "launch"] == ["AFDEP_UNION_REDUCE_PREFIX"]


@given(words)
def test_the_native_word_of_switches_reads_back(word: int) -> None:
    assert controls.bits(controls.from_bits(word)) == word


@given(words)
def test_an_environment_gives_the_switches_it_sets(word: int) -> None:
    environ = {control.name: str(word >> control.bit & 1) for control in controls.CONTROLS}
    assert controls.from_environ(environ) == controls.from_bits(word)


def test_variables_of_others_are_ignored() -> None:
    assert controls.from_environ({"PATH": "/bin", "MY_AFDEP_THING": "7"}) == ()


@pytest.mark.parametrize("value", ["2", "", "true", "on", "01", " 1", "-1"], ids=repr)
def test_a_value_other_than_0_or_1_is_refused(value: str) -> None:
    with pytest.raises(ControlError, match="AFDEP_UNION_NOTIFY: expected 0 or 1"):
        controls.from_environ({"AFDEP_UNION_NOTIFY": value})


@pytest.mark.parametrize("value", [True, 1.0, 2, "1"], ids=repr)
def test_a_switch_that_is_not_the_integer_0_or_1_is_refused(value: object) -> None:
    with pytest.raises(ControlError, match="expected 0 or 1"):
        controls.canonical([("AFDEP_UNION_NOTIFY", value)])  # type: ignore[list-item]


def test_a_misspelt_control_is_refused_with_the_valid_names() -> None:
    with pytest.raises(ControlError) as caught:
        controls.from_environ({"AFDEP_UNION_NOTIFI": "1"})
    assert "did you mean AFDEP_UNION_NOTIFY?" in caught.value.next_step
    assert all(name in caught.value.next_step for name in controls.NAMES)


@pytest.mark.parametrize("word", [64, -1])
def test_a_native_word_with_an_unknown_bit_is_refused(word: int) -> None:
    with pytest.raises(ControlError, match=r"expected bits 0\.\.5"):
        controls.from_bits(word)
