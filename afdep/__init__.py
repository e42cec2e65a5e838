"""Role-specialized expert-parallel communication for Attention-FFN disaggregation.

The modules `checks`, `controls`, `hunt`, `reference`, `routing` and `window` are public by name.
"""

from afdep import checks, controls, hunt, reference, routing, window
from afdep.arms import PRESETS, Arm
from afdep.buffer import Buffer, Received
from afdep.buffers import Buffers
from afdep.device_errors import AgreementError, CaptureError, DeviceError, PeerTimeoutError, WaitTimeoutError
from afdep.digest import NativeDigest, native_digest
from afdep.errors import (
    AfdepError,
    ArmError,
    BucketMismatchError,
    BuildError,
    CapacityError,
    ControlError,
    DeadBufferError,
    DeadlockError,
    DeviceAssertion,
    DigestError,
    IdTypeError,
    LayoutError,
    MachineError,
    MemoryFaultError,
    MismatchError,
    OrderError,
    OutOfMemoryError,
    PeerRefusedError,
    RoutingError,
    ShapeError,
    TokenCountAssertion,
)
from afdep.graph import Graph
from afdep.layout import Layout
from afdep.machine import Machine
from afdep.routing import Load
from afdep.shapes import ExchangeShape
from afdep.simulator import BlockedWait, KernelTime
from afdep.timing import Timing
from afdep.trace import Trace
from afdep.world import World

__all__ = [
    "PRESETS",
    "AfdepError",
    "AgreementError",
    "Arm",
    "ArmError",
    "BlockedWait",
    "BucketMismatchError",
    "Buffer",
    "Buffers",
    "BuildError",
    "CapacityError",
    "CaptureError",
    "ControlError",
    "DeadBufferError",
    "DeadlockError",
    "DeviceAssertion",
    "DeviceError",
    "DigestError",
    "ExchangeShape",
    "Graph",
    "IdTypeError",
    "KernelTime",
    "Layout",
    "LayoutError",
    "Load",
    "Machine",
    "MachineError",
    "MemoryFaultError",
    "MismatchError",
    "NativeDigest",
    "OrderError",
    "OutOfMemoryError",
    "PeerRefusedError",
    "PeerTimeoutError",
    "Received",
    "RoutingError",
    "ShapeError",
    "Timing",
    "TokenCountAssertion",
    "Trace",
    "WaitTimeoutError",
    "World",
    "checks",
    "controls",
    "hunt",
    "native_digest",
    "reference",
    "routing",
    "window",
]
