"""The external arm `nccl`, on one rank: the bare rows by two of torch's all-to-alls, there and back.

Each row goes once to every FFN rank that its token names, in an order that both sides know; nothing is counted,
expanded or reduced, and the splits are fixed. It shows what the rows alone take, and is no exchange.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from afdep import proof, reference
from afdep.errors import MismatchError
from afdep.layout import Layout
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.arms import external_identity
from harness.device import gpu, timing
from harness.device.endpoint import Measurement
from harness.identity import Identity
from harness.plan import Cell
from harness.session import Session


def open_end(session: Session, rank: int) -> "NcclEnd":
    """This rank's end; collective."""
    facts = gpu.join(session, rank)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    name = f"torch {torch.__version__}, nccl {version}"
    return NcclEnd(session, rank, Wire("cuda", dist.new_group(backend="nccl")), {**facts, "nccl": version}, name)


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
    """One rank of the bare rows, as `harness.device.endpoint.Endpoint` says."""

    def __init__(self, session: Session, rank: int, wire: Wire, facts: Mapping[str, Any], library: str):
        row, exchange = session.row, session.plan.exchange
        layout = Layout.parse(row.layout)
        self._shape = ExchangeShape(layout, row.hidden, row.experts, exchange.top_k, exchange.capacity, row.dtype)
        self._session, self._rank, self._wire = session, rank, wire
        self.role: str = layout.role(rank)
        self.identity = Identity(library, external_identity("nccl").protocol, ())
        self.registered_bytes: int | None = None
        self.facts = facts

    def prove(self, loads: Sequence[Any], cell: Cell) -> None:
        """Send known rows both ways and compare them byte by byte."""
        for index, load in enumerate(loads):
            bare = self.bare(load, self._session.plan.exchange.seed + index)
            exchange, check = self._exchange(bare)
            exchange()
            check()
        dist.barrier()

    def time(self, load: Any, cell: Cell) -> Measurement:
        """Time the two all-to-alls, and compare what the last of them brought."""
        plan = self._session.plan
        exchange, check = self._exchange(self.bare(load, plan.exchange.seed))
        one = timing.Repeatable(exchange, torch.cuda.synchronize)
        measured = timing.measure(plan.backend, plan.exchange.mode, one)
        check()
        return measured

    def close(self) -> None:
        """Leave the group; collective."""
        dist.barrier()

    def bare(self, load: Any, seed: int) -> Bare:
        """What an exchange of these routes comes down to on this rank."""
        layout, shape = self._shape.layout, self._shape
        sent = proof.draw(SimpleNamespace(shape=shape, layout=layout), load, seed)
        parts: list[tuple[Any, Any]] = []
        for peer in range(layout.num_ranks):
            source, ffn = (self._rank, peer) if self.role == "attention" else (peer, self._rank)
            apart = layout.role(source) == "attention" and layout.role(ffn) == "ffn"
            tokens = self._tokens(sent[source - layout.ffn_ranks], ffn) if apart else np.array([], np.int64)
            rows = _bytes(sent[source - layout.ffn_ranks], tokens) if apart else _no_bytes(sent[0])
            back = reference.payload(len(tokens), shape.hidden, (seed * layout.num_ranks + source) * 2 + ffn)
            parts.append((rows, back.view(np.uint8)))
        there, back_rows = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        return Bare(there, back_rows, [len(rows) for rows, _ in parts])

    def _tokens(self, sent: Sent, ffn: int) -> Any:
        return np.flatnonzero((np.asarray(sent.topk_idx) // self._shape.experts_per_rank == ffn).any(axis=1))

    def _exchange(self, bare: Bare) -> tuple[Any, Any]:
        """The exchange of these rows, and the check of what it brought."""
        wire, none = self._wire, [0] * len(bare.counts)
        there, back = wire.upload(bare.there), wire.upload(bare.back)
        nothing = wire.empty(0, there.shape[1]), wire.empty(0, back.shape[1])
        if self.role == "attention":
            into = torch.zeros_like(back)

            def exchange() -> None:
                wire.send(nothing[0], there, none, bare.counts)
                wire.send(into, nothing[1], bare.counts, none)

            return exchange, lambda: self._check("row sent back", back, into)
        received = torch.zeros_like(there)

        def passing() -> None:
            wire.send(received, nothing[0], bare.counts, none)
            wire.send(nothing[1], back, none, bare.counts)

        return passing, lambda: self._check("row sent", there, received)

    def _check(self, what: str, expected: Any, received: Any) -> None:
        if torch.equal(expected, received):
            return
        row = int((expected != received).any(dim=1).nonzero()[0])
        raise MismatchError(what, "its bytes", "others", self._rank, row)


def _bytes(sent: Sent, tokens: Any) -> Any:
    """Rows of these tokens with their scale words, as bytes."""
    rows = np.ascontiguousarray(sent.x[tokens]).view(np.uint8)
    if sent.scales is None:
        return rows
    return np.concatenate([rows, np.ascontiguousarray(sent.scales[tokens]).view(np.uint8)], axis=1)


def _no_bytes(sent: Sent) -> Any:
    return _bytes(sent, np.array([], np.int64))
