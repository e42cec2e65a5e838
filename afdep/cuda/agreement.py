"""How the ranks of a group compare what they must have in common when a Buffer is made, and say what went wrong."""

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from afdep.agreement import check
from afdep.agreement import fields as fields
from afdep.errors import LayoutError, PeerRefusedError
from afdep.layout import Layout


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
