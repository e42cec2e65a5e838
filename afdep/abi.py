"""What the C ABIs of both targets share (afdep/csrc/abi.h): structs, and a shape and an arm as they take them."""

import ctypes
from ctypes import c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from typing import ClassVar

from afdep import controls
from afdep.arms import Arm
from afdep.dtypes import DISPATCH_DTYPES
from afdep.shapes import ExchangeShape

_PROTOCOLS = ("m2n", "afdep")
"""By their numbers in afdep/csrc/abi.h, as the dtypes."""

_DTYPES = tuple(DISPATCH_DTYPES)


class ShapeStruct(ctypes.Structure):
    """`afdep_shape` of abi.h."""

    _fields_: ClassVar = [
        *((name, c_int32) for name in ("attention_ranks", "ffn_ranks", "hidden", "num_experts", "top_k", "capacity")),
        *((name, c_int32) for name in ("dtype", "transport_sms", "protocol")),
        ("switches", c_uint32),
        ("expert_alignment", c_int32),
    ]


class ReceivedStruct(ctypes.Structure):
    """`afdep_received` of abi.h."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("rows", "row_scales", "row_weights", "expert_offsets", "expert_counts")),
        *((name, c_void_p) for name in ("source_metadata", "rank_prefix")),
        ("max_rows", c_int64),
    ]


class ErrorRecordStruct(ctypes.Structure):
    """`afdep_error_record` of abi.h."""

    _fields_: ClassVar = [
        *((name, c_int32) for name in ("failure", "rank", "token", "lane")),
        ("expert", c_int64),
    ]


@dataclass(frozen=True)
class BuildInfo:
    """What a loaded library says it is."""

    digest: str
    target: str
    fiber: str


def struct_of(shape: ExchangeShape, arm: Arm) -> ShapeStruct:
    """The shape of exchanges, with the protocol and the switches that carry them."""
    return ShapeStruct(
        attention_ranks=shape.layout.attention_ranks,
        ffn_ranks=shape.layout.ffn_ranks,
        hidden=shape.hidden,
        num_experts=shape.num_experts,
        top_k=shape.top_k,
        capacity=shape.capacity,
        dtype=_DTYPES.index(shape.dispatch_dtype),
        transport_sms=shape.transport_sms,
        protocol=_PROTOCOLS.index(arm.protocol),
        switches=controls.bits(arm.switches),
        expert_alignment=shape.expert_alignment,
    )


def protocol_of(native: ShapeStruct) -> str:
    """The protocol that a native shape names."""
    return _PROTOCOLS[native.protocol]
