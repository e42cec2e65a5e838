"""Which GPU each rank runs on, and which share of it.

A transport CTA takes a whole SM and spins for its peers. A share under MPS bounds how many SMs a rank may use; nothing
says that two shares do not overlap. On an H200 four ranks with a quarter each, and three with a quarter each, kept each
other's kernels from starting. So whatever spins on a GPU has to fit every share of it at once. An epilogue that waits
for the end of its main kernel holds SMs as well, but only once all that this kernel awaits is running.
"""

from collections import Counter
from dataclasses import dataclass

from afdep.layout import Layout
from harness.errors import PlacementError

TRANSPORT_SMS = (24, 16)
"""What arms are measured with: the first that every share holds once for each rank of its GPU."""


@dataclass(frozen=True)
class Seat:
    """A rank's place.

    Args:
        gpu: the index of its GPU.
        percentage: of the GPU's SMs that it may use.
    """

    gpu: int
    percentage: int

    def sms(self, sm_count: int) -> int:
        """SMs that the share comes to: the device gives them in pairs."""
        return sm_count * self.percentage // 100 // 2 * 2 if self.percentage < 100 else sm_count


@dataclass(frozen=True)
class Placement:
    """The seats of a layout's ranks, by rank."""

    seats: tuple[Seat, ...]

    @property
    def ranks_per_gpu(self) -> int:
        """Ranks on the fullest GPU."""
        return max(Counter(seat.gpu for seat in self.seats).values())

    @property
    def is_shared(self) -> bool:
        """Whether a GPU has several ranks, which needs MPS."""
        return self.ranks_per_gpu > 1

    def in_words(self) -> str:
        """The GPU of each rank, and the share of it where that is not all."""
        seats = (f"{one.gpu}" if one.percentage == 100 else f"{one.gpu} ({one.percentage}%)" for one in self.seats)
        return f"{', '.join(seats)}{' under MPS' if self.is_shared else ''}"

    def room(self, sm_count: int) -> int:
        """SMs on which each rank can spin beside those that share its GPU."""
        on_gpu = Counter(seat.gpu for seat in self.seats)
        return min(seat.sms(sm_count) // on_gpu[seat.gpu] for seat in self.seats)

    def transport_sms(self, sm_count: int) -> int:
        """Transport SMs for every rank.

        Raises:
            PlacementError: a share too small for any number that arms are measured with.
        """
        room = self.room(sm_count)
        for sms in TRANSPORT_SMS:
            if sms <= room:
                return sms
        raise PlacementError(
            f"placement: expected room for {TRANSPORT_SMS[-1]} SMs a rank or more, received {room} of {sm_count} SMs.",
            f"{self.ranks_per_gpu} ranks share a GPU: take fewer ranks, or more GPUs.",
        )


def place(layout: Layout, gpus: int) -> Placement:
    """Ranks over GPUs: one each where they suffice, else the roles apart and each as even as it can be.

    Args:
        layout: the ranks.
        gpus: how many there are.

    Raises:
        PlacementError: no GPU.
    """
    if gpus < 1:
        raise PlacementError(
            f"placement of {layout}: expected 1 GPU or more, received {gpus}.", "Run it on a GPU node."
        )
    ffn_gpus = min(range(1, gpus), key=lambda count: _crowding(layout, count, gpus), default=0)
    used = [rank % ffn_gpus if ffn_gpus else 0 for rank in layout.ffn_rank_ids]
    used += [ffn_gpus + source % (gpus - ffn_gpus) for source in range(layout.attention_ranks)]
    on_gpu = Counter(used)
    return Placement(tuple(Seat(gpu, _share(on_gpu[gpu])) for gpu in used))


def planned(layout: Layout, ranks_per_gpu: int) -> Placement:
    """The placement of a plan that says how many ranks the fullest GPU has: on as few GPUs as that allows.

    Raises:
        PlacementError: no placement has so many on the fullest.
    """
    placement = place(layout, -(-layout.num_ranks // ranks_per_gpu))
    if placement.ranks_per_gpu != ranks_per_gpu:
        raise PlacementError(
            f"placement of {layout}: expected {ranks_per_gpu} ranks on the fullest GPU, "
            f"received {placement.ranks_per_gpu} on the fewest GPUs.",
            f"Write backend.ranks_per_gpu={placement.ranks_per_gpu}.",
        )
    return placement


def _share(ranks: int) -> int:
    """The percentage of a GPU that each of its ranks may use: half of it holds what two ranks spin with."""
    return 50 if ranks == 2 else 100


def _crowding(layout: Layout, ffn_gpus: int, gpus: int) -> int:
    """Ranks on the fullest GPU when FFN ranks have so many of them."""
    return max(-(-layout.ffn_ranks // ffn_gpus), -(-layout.attention_ranks // (gpus - ffn_gpus)))
