"""Role-specialized expert-parallel communication for Attention-FFN disaggregation.

`Buffer` is a rank on a GPU, in torch; `World` holds all ranks of a layout on the simulator, with a `SimBuffer` each.
Names load what they need when they are first used: importing `afdep` needs neither torch nor a compiler.
"""

from typing import TYPE_CHECKING

from afdep.lazy import names_of as _names_of

if TYPE_CHECKING:
    from afdep import build, controls, fp8, proof, reference, routing, window
    from afdep.arms import PRESETS, Arm
    from afdep.cuda.buffer import Buffer
    from afdep.device_errors import (
        AgreementError,
        CaptureError,
        DeviceError,
        PeerTimeoutError,
        TorchMissingError,
        WaitTimeoutError,
    )
    from afdep.digest import CodeDigest, NativeDigest, native_digest
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
    from afdep.interface import ExchangeBuffer, Received
    from afdep.layout import Layout
    from afdep.machine import Machine
    from afdep.routing import Load
    from afdep.shapes import ExchangeShape
    from afdep.sim.buffer import SimBuffer
    from afdep.sim.buffers import Buffers
    from afdep.sim.graph import Graph
    from afdep.sim.simulator import BlockedWait, KernelTime
    from afdep.sim.timing import Timing
    from afdep.sim.world import World
    from afdep.trace import Trace

__all__ = [
    "CONTRACT",
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
    "CodeDigest",
    "ControlError",
    "DeadBufferError",
    "DeadlockError",
    "DeviceAssertion",
    "DeviceError",
    "DigestError",
    "ExchangeBuffer",
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
    "SimBuffer",
    "Timing",
    "TokenCountAssertion",
    "TorchMissingError",
    "Trace",
    "WaitTimeoutError",
    "World",
    "build",
    "controls",
    "fp8",
    "native_digest",
    "proof",
    "reference",
    "routing",
    "window",
]

CONTRACT = 2
"""Number of the interface by which the harness measures this tree."""

__getattr__, __dir__ = _names_of(__name__)
