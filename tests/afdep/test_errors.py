import pickle

import pytest

from afdep import device_errors, errors

EXAMPLES = [
    *(
        cause("problem.", "Next step.")
        for cause in (
            errors.AfdepError,
            errors.LayoutError,
            errors.ArmError,
            errors.ControlError,
            errors.RoutingError,
            errors.MachineError,
            errors.BuildError,
            errors.DigestError,
            errors.OrderError,
        )
    ),
    errors.ShapeError("hidden", "a multiple of 8", 2049, "Pad the rows."),
    errors.IdTypeError("uint32", 128),
    errors.CapacityError(65, 64, 2048),
    errors.OutOfMemoryError("65 GiB on rank 2"),
    errors.PeerRefusedError(3),
    device_errors.CaptureError("source_dispatch", "Build before capture."),
    device_errors.DeviceError("launch: out of memory"),
    device_errors.AgreementError("hidden", [2048, 2048, 4096]),
    device_errors.WaitTimeoutError(1, "dispatch counts", [0], 1, 0),
    device_errors.PeerTimeoutError(0, 3),
    device_errors.TorchMissingError(),
    errors.BucketMismatchError(0, 64, 2, 32),
    errors.DeadBufferError("exchange: a refusal from rank 3."),
    errors.MemoryFaultError("bulk load: 4096 bytes at offset 0 of rank 1"),
    errors.DeadlockError(["rank 0 waits for rank 1"]),
    errors.DeviceAssertion("id_in_range", 2, 5, 7, 128),
    errors.TokenCountAssertion(2, 64, 65),
    errors.MismatchError("received row", "0x3f80", "0x0", 1, row=4, source=2, token=9, lane=0, column=3),
]
by_name = pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)


def test_every_error_class_has_an_example() -> None:
    classes = {
        value
        for value in (vars(errors) | vars(device_errors)).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert {type(example) for example in EXAMPLES} == classes


@by_name
def test_an_error_is_two_lines(error: errors.AfdepError) -> None:
    assert [len(line) > 5 for line in str(error).split("\n")] == [True, True]


@by_name
def test_an_error_survives_pickling_with_its_fields(error: errors.AfdepError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), vars(copy), str(copy)) == (type(error), vars(error), str(error))


def test_an_id_type_error_is_a_type_error() -> None:
    assert issubclass(errors.IdTypeError, TypeError)


def test_a_capacity_error_names_the_parameter_that_is_too_small() -> None:
    assert errors.CapacityError(65, 64, 2048).parameter == "bucket"
    assert errors.CapacityError(65, 4096, 2048).parameter == "capacity"


def test_a_disagreement_names_the_ranks_of_each_value() -> None:
    problem = device_errors.AgreementError("hidden", [2048, 4096, 2048]).problem
    assert problem.endswith("received 2048 at ranks [0, 2]; 4096 at ranks [1].")


def test_a_timeout_names_the_missing_peer() -> None:
    assert "expected rank 0 to arrive" in device_errors.WaitTimeoutError(1, "dispatch counts", [0], 1, 0).problem
    assert "expected ranks [0, 2] to arrive" in device_errors.WaitTimeoutError(1, "exit barrier", [0, 2], 4, 2).problem
    assert "expected all ranks to arrive" in device_errors.WaitTimeoutError(1, "exit barrier", [], 2, 1).problem


def test_a_wait_for_a_rank_that_itself_waits_names_both():
    problem = device_errors.WaitTimeoutError(2, "combine arrivals", [3], 25, 24, peer=0).problem
    assert "expected rank 0 to arrive with 25, received 24 until the time-out; rank 0 itself misses rank 3" in problem
    assert "itself" not in device_errors.WaitTimeoutError(2, "combine arrivals", [0], 25, 24, peer=0).problem


def test_a_deadlock_shows_four_waits_and_counts_the_rest() -> None:
    message = str(errors.DeadlockError([f"wait{i}" for i in range(6)]))
    assert "received 6" in message
    assert "wait3; and 2 more" in message
    assert "wait4" not in message


def test_a_mismatch_names_only_the_places_it_knows() -> None:
    problem = errors.MismatchError("collected row", 1, 2, 3, token=0).problem
    assert problem == "collected row at rank 3, token 0: expected 1, received 2."


def test_the_closest_valid_name_is_suggested_first() -> None:
    assert errors.choices("radnom", ["skew", "random"]) == "did you mean random? Valid: skew, random."
    assert errors.choices("zzz", ["skew", "random"]) == "Valid: skew, random."
