"""Role-specialized expert-parallel communication for Attention-FFN disaggregation.

The modules `checks`, `controls`, `reference`, `routing` and `window` are public by name.
"""

from afdep import checks, controls, reference, routing, window
from afdep.arms import PRESETS, Arm
from afdep.errors import (
    AfdepError,
    ArmError,
    BuildError,
    CapacityError,
    ControlError,
    DeadlockError,
    DeviceAssertion,
    DigestError,
    IdTypeError,
    LayoutError,
    MachineError,
    MismatchError,
    OrderError,
    RoutingError,
    ShapeError,
)
from afdep.layout import Layout
from afdep.machine import Machine
from afdep.shapes import ExchangeShape

__all__ = [
    "PRESETS",
    "AfdepError",
    "Arm",
    "ArmError",
    "BuildError",
    "CapacityError",
    "ControlError",
    "DeadlockError",
    "DeviceAssertion",
    "DigestError",
    "ExchangeShape",
    "IdTypeError",
    "Layout",
    "LayoutError",
    "Machine",
    "MachineError",
    "MismatchError",
    "OrderError",
    "RoutingError",
    "ShapeError",
    "checks",
    "controls",
    "reference",
    "routing",
    "window",
]
