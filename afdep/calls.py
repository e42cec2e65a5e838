"""Which call of an exchange a rank may make, on either target."""

from afdep.errors import OrderError
from afdep.layout import Layout, Role


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
