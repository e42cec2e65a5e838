"""Proofs: exchanges of known payload, compared with the reference bit for bit, and the hunt for one that is not exact.

`payload` and `checks` serve both targets; the rest runs Worlds.
"""

from typing import TYPE_CHECKING

from afdep.lazy import names_of as _names_of

if TYPE_CHECKING:
    from afdep.proof.exchanges import Exchange, check, combine, dispatch, enqueue, prove
    from afdep.proof.payload import draw, expected

__all__ = ["Exchange", "check", "combine", "dispatch", "draw", "enqueue", "expected", "prove"]

__getattr__, __dir__ = _names_of(__name__)
