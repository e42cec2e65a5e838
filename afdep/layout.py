"""Which rank has which role: FFN ranks are [0, F), Attention rank (source) s is rank F + s."""

import re
from dataclasses import dataclass
from typing import Literal

from afdep.errors import LayoutError

Role = Literal["ffn", "attention"]

MAX_RANKS = 128
"""The most ranks of one layout, both roles together."""

_SPELLINGS = "Write 2A2F, 2A:2F or 2F:2A with the role beside each count and quote it: a bare 4:4 is 244 to YAML."
_COUNT = r"([1-9][0-9]*|0)"
_FORMS = (
    re.compile(rf"(?P<attention>{_COUNT})A:?(?P<ffn>{_COUNT})F"),
    re.compile(rf"(?P<ffn>{_COUNT})F:(?P<attention>{_COUNT})A"),
)


@dataclass(frozen=True)
class Layout:
    """One NVLink domain of Attention and FFN ranks.

    Args:
        attention_ranks: number of Attention ranks (sources), at least 1.
        ffn_ranks: number of FFN ranks, at least 1.

    Raises:
        LayoutError: a count is below 1 or not an integer, or the two exceed MAX_RANKS together.
    """

    attention_ranks: int
    ffn_ranks: int

    def __post_init__(self) -> None:
        _check_count("attention_ranks", self.attention_ranks)
        _check_count("ffn_ranks", self.ffn_ranks)
        if self.num_ranks > MAX_RANKS:
            raise LayoutError(
                f"layout {self}: expected at most {MAX_RANKS} ranks together, received {self.num_ranks}.",
                "Take fewer Attention or FFN ranks.",
            )

    @classmethod
    def parse(cls, text: object) -> "Layout":
        """Read `2A2F`, `2A:2F` or `2F:2A`.

        Args:
            text: the spelling; anything but a string is refused with what was read, since YAML makes 4:4 the
                integer 244.

        Raises:
            LayoutError: not one of these spellings, or counts no layout can have.
        """
        if not isinstance(text, str):
            raise LayoutError(f"layout: expected text, received the {type(text).__name__} {text!r}.", _SPELLINGS)
        for form in _FORMS:
            if match := form.fullmatch(text):
                return cls(attention_ranks=int(match["attention"]), ffn_ranks=int(match["ffn"]))
        raise LayoutError(f"layout: expected Attention and FFN counts with roles, received {text!r}.", _SPELLINGS)

    @property
    def num_ranks(self) -> int:
        return self.attention_ranks + self.ffn_ranks

    @property
    def ffn_rank_ids(self) -> range:
        return range(self.ffn_ranks)

    @property
    def attention_rank_ids(self) -> range:
        return range(self.ffn_ranks, self.num_ranks)

    def role(self, rank: int) -> Role:
        """The role of a rank.

        Raises:
            LayoutError: `rank` is outside [0, num_ranks).
        """
        if not 0 <= rank < self.num_ranks:
            raise LayoutError(
                f"rank: expected 0..{self.num_ranks - 1} in {self}, received {rank}.",
                f"FFN ranks are 0..{self.ffn_ranks - 1}, Attention ranks {self.ffn_ranks}..{self.num_ranks - 1}.",
            )
        return "ffn" if rank < self.ffn_ranks else "attention"

    def __str__(self) -> str:
        return f"{self.attention_ranks}A{self.ffn_ranks}F"


def _check_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise LayoutError(f"layout: expected {name} of at least 1, received {count!r}.", _SPELLINGS)
