"""Which layouts share a start of rank processes: those whose ranks have the same seats in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from afdep.layout import Layout
from harness.colocation import Placement, place


@dataclass
class Company:
    """The ranks of one start.

    Args:
        placement: the seats of all of them.
        layouts: that its first ranks play, each as many as it has.
    """

    placement: Placement
    layouts: list[str] = field(default_factory=list)

    def seats(self, placement: Placement) -> bool:
        """Whether the ranks of another placement sit here as they would by themselves."""
        own, other = self.placement, placement
        return own.is_shared == other.is_shared and own.seats[: len(other.seats)] == other.seats


def companies(layouts: Iterable[str], gpus: int) -> list[Company]:
    """As few starts as serve all layouts; the layouts of fewest ranks come first.

    Raises:
        PlacementError: no GPU.
    """
    made: list[Company] = []
    fewest_first = sorted(dict.fromkeys(layouts), key=lambda one: Layout.parse(one).num_ranks)
    for layout in reversed(fewest_first):
        placement = place(Layout.parse(layout), gpus)
        company = next((one for one in made if one.seats(placement)), None)
        if company is None:
            made.append(company := Company(placement))
        company.layouts.insert(0, layout)
    return made[::-1]
