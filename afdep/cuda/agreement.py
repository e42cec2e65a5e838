"""What the ranks of a group must agree on, compared when a Buffer is made."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist

from afdep import controls
from afdep.arms import Arm
from afdep.device_errors import AgreementError
from afdep.errors import LayoutError, PeerRefusedError
from afdep.layout import Layout
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


def agree(group: Any, own: Mapping[str, object] | None) -> None:
    """Compare with all ranks; collective, so a rank whose arguments were refused takes part too, with None.

    Raises:
        AgreementError: the ranks were made differently; every rank raises it.
        PeerRefusedError: a rank's arguments were refused there.
    """
    by_rank = gathered(group, own)
    refused = [rank for rank, of_rank in enumerate(by_rank) if of_rank is None]
    if own is None:
        return
    if refused:
        raise PeerRefusedError(refused[0])
    check(by_rank)


def gathered(group: Any, value: Any) -> list[Any]:
    """What every rank passes, by rank; collective."""
    by_rank: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, value, group)
    return by_rank


def first_problem(group: Any, own: str | None) -> str | None:
    """What went wrong on the first rank where something did, on every rank; collective."""
    by_rank = gathered(group, own)
    return next((f"rank {rank}: {problem}" for rank, problem in enumerate(by_rank) if problem is not None), None)


def check_size(group: Any, layout: Layout) -> None:
    """Refuse a group of another size than the layout's.

    Raises:
        LayoutError
    """
    size = dist.get_world_size(group)
    if size != layout.num_ranks:
        raise LayoutError(
            f"layout {layout}: expected a group of {layout.num_ranks} ranks, received {size}.",
            "Start one process a rank, or choose the layout of the group.",
        )
