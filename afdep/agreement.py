"""What the ranks of a group must have in common, and the comparison of it; it needs no GPU, and no torch."""

from collections.abc import Mapping, Sequence

from afdep import controls
from afdep.arms import Arm
from afdep.device_errors import AgreementError
from afdep.shapes import ExchangeShape


def fields(shape: ExchangeShape, arm: Arm, digest: str) -> dict[str, object]:
    """Everything of a rank that its peers' kernels rely on, by name, in the order it is compared."""
    wire = {control.name for control in controls.CONTROLS if control.scope == "wire"}
    return {
        "native digest": digest,
        "protocol": arm.protocol,
        "layout": str(shape.layout),
        "hidden": shape.hidden,
        "num_experts": shape.num_experts,
        "top_k": shape.top_k,
        "capacity": shape.capacity,
        "dispatch_dtype": shape.dispatch_dtype,
        "transport_sms": shape.transport_sms,
        "expert_alignment": shape.expert_alignment,
        **{name: dict(arm.switches).get(name, 0) for name in controls.NAMES if name in wire},
    }


def check(by_rank: Sequence[Mapping[str, object]]) -> None:
    """Compare the fields of every rank, in order of rank.

    Raises:
        AgreementError: the first field that differs, with the value of each rank.
    """
    for name in by_rank[0]:
        values = [of_rank.get(name) for of_rank in by_rank]
        if any(value != values[0] for value in values):
            raise AgreementError(name, values)
