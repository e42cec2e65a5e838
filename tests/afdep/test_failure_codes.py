"""The codes of failures are those of the kernels, and each is its own exception."""

import re
from pathlib import Path

import pytest

from afdep.errors import BucketMismatchError, DeviceAssertion, PeerRefusedError, TokenCountAssertion
from afdep.failure_codes import Failure, reported

FORMAT = Path(__file__).parents[2] / "vendor" / "elastic" / "format.hpp"
MEMBER = re.compile(r"^\s*(\w+) = (\d+),", re.MULTILINE)


def native_codes(source: str) -> dict[str, int]:
    (body,) = re.findall(r"enum class Failure : std::int32_t \{\n(.*?)\};", source, re.DOTALL)
    return {name: int(number) for name, number in MEMBER.findall(body)}


def test_names_and_numbers_are_those_of_the_kernels() -> None:
    assert {one.name: one.value for one in Failure} == native_codes(FORMAT.read_text("utf-8"))


@pytest.mark.parametrize(
    "change", [("refused = 3", "refused = 7"), ("refused = 3", "declined = 3"), ("  refused = 3,", "")]
)
def test_a_code_that_the_kernels_change_is_found(change: tuple[str, str]) -> None:
    changed = FORMAT.read_text("utf-8").replace(*change)
    assert {one.name: one.value for one in Failure} != native_codes(changed)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure.expert_out_of_range, DeviceAssertion),
        (Failure.duplicate_expert, DeviceAssertion),
        (Failure.refused, PeerRefusedError),
        (Failure.num_tokens_out_of_range, TokenCountAssertion),
        (Failure.other_bucket, BucketMismatchError),
    ],
)
def test_each_failure_with_a_record_is_its_own_exception(failure: Failure, kind: type[Exception]) -> None:
    error = reported(failure.value, 2, 5, 7, 128)
    assert type(error) is kind
    assert kind is not DeviceAssertion or failure.name in str(error)


def test_a_number_that_no_failure_has_is_refused() -> None:
    with pytest.raises(ValueError, match="7"):
        reported(7, 2, 5, 7, 128)
