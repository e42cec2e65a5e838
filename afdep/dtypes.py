"""The dispatch dtypes: how many bytes a token's hidden row and its scale factors take."""

from dataclasses import dataclass

from afdep.errors import ShapeError, choices

SCALE_GROUP = 128
"""Elements that share one scale factor; the last group of a row may be short."""


@dataclass(frozen=True)
class DispatchDtype:
    """The payload type of a dispatch.

    Args:
        name: "bf16", "fp8" (float8_e4m3fn, one fp32 scale a group) or "fp8-ue8m0" (four UE8M0 scales an int32).
        element_bytes: bytes of one hidden element.
        groups_per_word: scale groups that one 4-byte scale word covers; 0 without scales.
    """

    name: str
    element_bytes: int
    groups_per_word: int

    def row_bytes(self, hidden: int) -> int:
        """Bytes of one hidden row, without scales."""
        return hidden * self.element_bytes

    def scale_bytes(self, hidden: int) -> int:
        """Bytes of one row's scale words, unpadded."""
        if self.groups_per_word == 0:
            return 0
        return 4 * -(-hidden // (SCALE_GROUP * self.groups_per_word))


DISPATCH_DTYPES: dict[str, DispatchDtype] = {
    dtype.name: dtype
    for dtype in (DispatchDtype("bf16", 2, 0), DispatchDtype("fp8", 1, 1), DispatchDtype("fp8-ue8m0", 1, 4))
}


def dispatch_dtype(name: object) -> DispatchDtype:
    """The dtype of that name.

    Raises:
        ShapeError: not one of DISPATCH_DTYPES.
    """
    if not isinstance(name, str) or name not in DISPATCH_DTYPES:
        raise ShapeError("dispatch_dtype", "a known name", name, choices(name, tuple(DISPATCH_DTYPES)))
    return DISPATCH_DTYPES[name]
