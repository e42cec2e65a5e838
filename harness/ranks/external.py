"""Arms of other libraries, on one rank.

`nccl` moves the bare rows by two of torch's all-to-alls, there and back. Each row goes once to every FFN rank that its
token names, in an order that both sides know; nothing is counted, expanded or reduced, and the splits are fixed. It
shows what the rows alone take, and is no exchange.

`deepep` is an installed `deep_ep` used as many-to-many: FFN ranks first; as many expert slots a rank as an FFN rank has
experts, those of Attention ranks dummies that no route names, so that ids stay as they are; the expanded layout; a
call's capacity of its own tokens; no weights, no handle copy and no host counts, so that calls can be captured. This
tree does not call it yet: its cells are void, with the installed version in the reason.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist

from harness.core.identity import Identity
from harness.ranks import contract, timing
from harness.ranks.cells import Cell
from harness.ranks.group import Measurement
from harness.study import VoidError

DEEPEP = "deep_ep"
"""The package of the arm `deepep`."""


def open_nccl(group: Any, what: Cell) -> "NcclEnd":
    """This rank's end; collective."""
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    name = f"torch {torch.__version__}, nccl {nccl}"
    return NcclEnd(what, group.rank, Wire("cuda", dist.new_group(backend="nccl")), {"nccl": nccl}, name)


@dataclass(frozen=True)
class Wire:
    """What rows travel by.

    Args:
        device: of the tensors.
        group: of the all-to-alls.
    """

    device: str
    group: Any

    def send(self, into: Any, rows: Any, counts_in: Sequence[int], counts_out: Sequence[int]) -> None:
        """One all-to-all of rows of bytes; the counts are by rank."""
        dist.all_to_all_single(into, rows, list(counts_in), list(counts_out), group=self.group)

    def upload(self, rows: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)

    def empty(self, rows: int, num_bytes: int) -> Any:
        return torch.empty((rows, num_bytes), dtype=torch.uint8, device=self.device)


@dataclass(frozen=True)
class Bare:
    """The rows of one exchange as this rank sees them, as bytes.

    Args:
        there: rows that it sends or must receive, by peer in order of rank.
        back: rows that it sends back or must get back, likewise.
        counts: of both, by rank; zero for a rank of its own role.
    """

    there: Any
    back: Any
    counts: list[int]


class NcclEnd:
    """One rank of the bare rows, as `harness.ranks.group.Endpoint` says."""

    loads = 1

    def __init__(self, what: Cell, rank: int, wire: Wire, facts: Mapping[str, Any], library: str):
        row, afdep = what.row, contract.modules().afdep
        layout = afdep.Layout.parse(row.layout)
        self._shape = afdep.ExchangeShape(layout, **what.exchange.shape_of(row))
        self._what, self._rank, self._wire = what, rank, wire
        self._is_source = layout.role(rank) == "attention"
        self.roles: Mapping[int, str] = {rank: str(layout.role(rank))}
        self.identity = Identity(library, "nccl")
        self.registered_bytes: int | None = None
        self.facts = facts

    def prove(self, loads: Sequence[Any], bucket: int) -> None:
        """Send known rows both ways and compare them byte by byte."""
        for index, load in enumerate(loads):
            exchange, check = self._exchange(self.bare(load, self._what.exchange.seed + index))
            exchange()
            check()
        dist.barrier()

    def time(self, loads: Sequence[Any], bucket: int) -> Measurement:
        """Time the two all-to-alls, and compare what the last of them brought."""
        exchange, check = self._exchange(self.bare(loads[0], self._what.exchange.seed))
        one = timing.Repeatable(exchange, torch.cuda.synchronize)
        measured = timing.measure(self._what.backend, self._what.exchange.mode, self._rank, one)
        check()
        return measured

    def close(self) -> None:
        """Leave the group; collective."""
        dist.barrier()

    def bare(self, load: Any, seed: int) -> Bare:
        """What an exchange of these routes comes down to on this rank."""
        layout, shape = self._shape.layout, self._shape
        sent = contract.modules().payload.draw(SimpleNamespace(shape=shape, layout=layout), load, seed)
        parts: list[tuple[Any, Any]] = []
        for peer in range(layout.num_ranks):
            source, ffn = (self._rank, peer) if self._is_source else (peer, self._rank)
            apart = layout.role(source) == "attention" and layout.role(ffn) == "ffn"
            own = sent[source - layout.ffn_ranks] if apart else sent[0]
            tokens = self._tokens(own, ffn) if apart else np.array([], np.int64)
            back = contract.modules().reference.payload(
                len(tokens), shape.hidden, (seed * layout.num_ranks + source) * 2 + ffn
            )
            parts.append((_bytes(own, tokens), back.view(np.uint8)))
        there, back_rows = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        return Bare(there, back_rows, [len(rows) for rows, _ in parts])

    def _tokens(self, sent: Any, ffn: int) -> Any:
        return np.flatnonzero((np.asarray(sent.topk_idx) // self._shape.experts_per_rank == ffn).any(axis=1))

    def _exchange(self, bare: Bare) -> tuple[Any, Any]:
        """The exchange of these rows, and the check of what it brought."""
        wire, none = self._wire, [0] * len(bare.counts)
        there, back = wire.upload(bare.there), wire.upload(bare.back)
        own, expected = (there, back) if self._is_source else (back, there)
        into = torch.zeros_like(expected)
        send = wire.empty(0, own.shape[1]), own, none, bare.counts
        receive = into, wire.empty(0, expected.shape[1]), bare.counts, none
        calls = (send, receive) if self._is_source else (receive, send)

        def exchange() -> None:
            for call in calls:
                wire.send(*call)

        what = "row sent back" if self._is_source else "row sent"
        return exchange, lambda: self._check(what, expected, into)

    def _check(self, what: str, expected: Any, received: Any) -> None:
        if not torch.equal(expected, received):
            row = int((expected != received).any(dim=1).nonzero()[0])
            raise contract.modules().afdep.MismatchError(what, "its bytes", "others", self._rank, row)


def _bytes(sent: Any, tokens: Any) -> Any:
    """Rows of these tokens with their scale words, as bytes."""
    rows = np.ascontiguousarray(sent.x[tokens]).view(np.uint8)
    if sent.scales is None:
        return rows
    return np.concatenate([rows, np.ascontiguousarray(sent.scales[tokens]).view(np.uint8)], axis=1)


def open_deepep(group: Any, what: Cell) -> NoReturn:
    """Say why the arm is void here.

    Raises:
        VoidError: always.
    """
    if importlib.util.find_spec(DEEPEP) is None:
        raise VoidError(f"{DEEPEP} is not installed")
    raise VoidError(f"{DEEPEP} {_version()} is installed, but this tree does not know how to call it")


def _version() -> str:
    try:
        return version(DEEPEP)
    except PackageNotFoundError:
        return "of no known version"
