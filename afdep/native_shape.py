"""A shape and an arm as the native library takes them."""

from afdep import controls
from afdep.arms import Arm
from afdep.dtypes import DISPATCH_DTYPES
from afdep.native import ShapeStruct
from afdep.shapes import ExchangeShape

_PROTOCOLS = ("m2n", "afdep")
"""By their numbers in afdep/csrc/abi.h, as the dtypes."""

_DTYPES = tuple(DISPATCH_DTYPES)


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
