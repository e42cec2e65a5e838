"""A control on FFN ranks alone, as the comparison at construction takes it: the part of it that needs no GPU."""

import importlib

from afdep import native_digest
from afdep.arms import Arm
from afdep.controls import CONTROLS
from afdep.shapes import ExchangeShape
from harness.validation.endpoint import NotPlayableError


def digest() -> str:
    """Of the native sources of this tree."""
    return str(native_digest("sim"))


def refusals(shape: ExchangeShape, arm_name: str) -> int:
    """How many ranks refuse to be made, where FFN ranks have this arm and the others have `afdep`.

    Raises:
        NotPlayableError: a control that ranks may have alone, which takes ranks that differ; or torch is missing.
    """
    arm = Arm.parse(arm_name)
    ((name, _),) = arm.switches
    if next(one for one in CONTROLS if one.name == name).scope == "launch":
        raise NotPlayableError("the ranks of a simulated group have one arm, and this control may differ")
    try:
        agreement = importlib.import_module("afdep.cuda.agreement")
        errors = importlib.import_module("afdep.device_errors")
    except ImportError as error:
        raise NotPlayableError("needs torch, through which ranks compare how they were made") from error
    arms = [arm if role == "ffn" else Arm.parse("afdep") for role in map(shape.layout.role, range(_ranks(shape)))]
    try:
        agreement.check([agreement.fields(shape, one, digest()) for one in arms])
    except errors.AgreementError as error:
        return _ranks(shape) if name in str(error) else 0
    return 0


def _ranks(shape: ExchangeShape) -> int:
    return shape.layout.num_ranks
