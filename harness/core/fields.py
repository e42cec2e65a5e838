"""What a field of a study's settings takes, beside its type: bounds, a unit, or how its text is read.

The settings are read once, at the edge, by `harness.config.read`, which also says all of this in a study's help.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from afdep import Arm, Layout
from harness.errors import ValueReadError

MAX_SEED = 2**31
"""Seeds stay in 32 bits, so that one per source can be derived from them."""


@dataclass(frozen=True)
class Within:
    """A number from `least` to `most`."""

    least: float
    most: float = float("inf")

    def __str__(self) -> str:
        return f"{self.least:,} or more" if self.most == float("inf") else f"{self.least:,} to {self.most:,}"


@dataclass(frozen=True)
class Unit:
    """The unit of a number."""

    name: str


@dataclass(frozen=True)
class Repeats:
    """A list that may have an entry several times."""


@dataclass(frozen=True)
class Text:
    """A text that is read by a function, which raises where it is none of its kind.

    Args:
        words: what is expected, for help and errors.
        read: to its canonical form.
    """

    words: str
    read: Callable[[str], Any] = str


def as_name(text: str) -> str:
    """A text that may become part of a file name.

    Raises:
        ValueReadError: other characters, or too many of them.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", text):
        raise ValueReadError(
            f"name: expected up to 64 small letters, digits and dashes, received {text[:80]!r}.",
            "It becomes part of file names: write decode-h200 or the like.",
        )
    return text


Count = Annotated[int, Within(1)]
Natural = Annotated[int, Within(0)]
Number = Annotated[float, Within(0)]
Share = Annotated[float, Within(0, 1)]
Seed = Annotated[int, Within(0, MAX_SEED - 1)]
Name = Annotated[str, Text("a name of small letters, digits and dashes", as_name)]
LayoutName = Annotated[str, Text("a layout as 2A2F", lambda text: str(Layout.parse(text)))]
ArmName = Annotated[str, Text("an arm as m2n or afdep[AFDEP_UNION_NOTIFY=1]", lambda text: Arm.parse(text).name)]
Dtype = Literal["bf16", "fp8", "fp8-ue8m0"]
Limit = Annotated[float, Within(0.01, 86_400), Unit("s")]
"""How long something may take, a day at the most."""
Microseconds = Annotated[int, Within(0), Unit("us")]
