"""Host checks of the calls of an exchange that both targets share: who may call, and with what."""

from typing import Any

from afdep.errors import OrderError, ShapeError
from afdep.layout import Layout, Role
from afdep.shapes import ExchangeShape


def require_role(layout: Layout, rank: int, role: Role, call: str) -> None:
    """Refuse the call of a rank of the other role.

    Raises:
        OrderError
    """
    if layout.role(rank) != role:
        raise OrderError(
            f"{call}: expected an {role} rank, received rank {rank}, which is {layout.role(rank)}.",
            f"FFN ranks of {layout} are {list(layout.ffn_rank_ids)}, the rest are Attention.",
        )


def require_order(rank: int, in_order: bool, call: str, other: str) -> None:
    """Refuse a call whose counterpart has not been made before it.

    Raises:
        OrderError
    """
    if not in_order:
        raise OrderError(
            f"{call} on rank {rank}: expected {other} before it, received {call} without it.",
            "An exchange is source_dispatch and source_collect, or ffn_receive and ffn_reply, in turn.",
        )


def refuse_view(view: bool) -> None:
    """Refuse a collect that copies nothing.

    Raises:
        ShapeError
    """
    if view:
        raise ShapeError("view", "False", view, "Collect by copy; the view is not built.")


def rows_and_scales(x: Any) -> tuple[Any, Any]:
    """What is dispatched as (rows, scale words); None for the words where rows come alone."""
    return x if isinstance(x, tuple) and len(x) == 2 else (x, None)


def scale_words(shape: ExchangeShape, scales: object, tokens: int) -> int:
    """Scale words of a row, once there are scales exactly where the dispatch dtype has some.

    Raises:
        ShapeError
    """
    words = shape.dtype.scale_bytes(shape.hidden) // 4
    if (scales is None) != (words == 0):
        expected = "none for BF16" if words == 0 else f"4-byte words [{tokens}, {words}]"
        raise ShapeError("scales", expected, "none" if scales is None else "some", "Pass x as (x, scales) for FP8.")
    return words
