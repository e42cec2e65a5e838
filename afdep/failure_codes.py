"""The codes that a rank's kernels give up with, and the exceptions that these become on the host."""

from enum import IntEnum

from afdep.errors import (
    AfdepError,
    BucketMismatchError,
    DeviceAssertion,
    PeerRefusedError,
    TokenCountAssertion,
)


class Failure(IntEnum):
    """`elastic::Failure` of vendor/elastic/format.hpp, with its names."""

    none = 0
    expert_out_of_range = 1
    duplicate_expert = 2
    refused = 3
    num_tokens_out_of_range = 4
    other_bucket = 5
    timed_out = 6


def reported(failure: int, rank: int, token: int, lane: int, expert: int) -> AfdepError:
    """What a rank's kernels reported, by its error record; -1s on a rank that was only told.

    Args:
        failure: a `Failure` of which there is an error record: all but `none` and `timed_out`.
        rank: that gave up.
        token: of the record; each failure has its own use of this and of the two that follow.
        lane: of the record.
        expert: of the record.
    """
    code = Failure(failure)
    if code is Failure.refused:
        return PeerRefusedError(rank)
    if code is Failure.num_tokens_out_of_range:
        return TokenCountAssertion(rank, token, expert)
    if code is Failure.other_bucket:
        found = (None, None, None) if token < 0 else (token, lane, expert)
        return BucketMismatchError(rank, *found)
    return DeviceAssertion(code.name, rank, token, lane, expert)
