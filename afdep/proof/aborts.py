"""Exchanges in which a rank gives up: no host takes for good what is not, and in the end every rank knows.

Behind every exchange of a source, and behind every copy epilogue of an FFN rank, stands a note of the rank's abort word
and of what the rank then has, as its host would read both. Ranks go on enqueuing, as graph replays do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.errors import AfdepError, DeadlockError, MemoryFaultError, MismatchError
from afdep.interface import Received
from afdep.proof import checks, graphs, payload
from afdep.proof.exchanges import Exchange, combine, dispatch
from afdep.proof.giving_up import Abort, BadRoute, Refusal, RefusalBeside, TimeOut
from afdep.reference import Sent
from afdep.routing import Load
from afdep.sim.buffers import Buffers

_REPLAYS = 3
_NO_EXPERT = 1 << 20


@dataclass(frozen=True)
class _Noted:
    """What one note of a rank holds.

    Args:
        rank: whose.
        sent: what the sources sent in that exchange, as it should have been.
        arrays: what is kept: what a source collected, or all that an FFN rank received.
        received: the arrays by name, on an FFN rank.
    """

    rank: int
    sent: Sequence[Sent]
    arrays: list[NDArray[Any]]
    received: Received | None = None


def prove(world: Buffers, loads: Sequence[Load], abort: Abort, seed: int, replayed: bool) -> None:
    """Run exchanges in which a rank gives up, over poisoned memory, and check what each rank's host may take for good.

    Args:
        world: the group; its payload must be on.
        loads: what the sources send in each exchange.
        abort: who gives up, and how.
        seed: of the payload, which differs from exchange to exchange.
        replayed: whether the exchanges are captured as a graph and replayed one behind the other.

    Raises:
        MismatchError: a rank whose abort word is clean has another result than the reference, one that knew of the
            abort has any, or a rank was never told.
        DeadlockError, MemoryFaultError: as in World.run.
    """
    world.poison(max(load.bucket or world.shape.capacity for load in loads))
    way = abort.way
    if isinstance(way, TimeOut):
        world.simulator.lose_patience(way.rank, way.waits, way.after_us)
    if isinstance(way, RefusalBeside):
        world.simulator.refuse_beside(world.handle, way.rank, way.after_us)
    noted = _replay(world, loads, abort, seed) if replayed else _Eager(world, abort).enqueue(loads, seed)
    try:
        world.run()
    except (DeadlockError, MemoryFaultError):
        raise
    except AfdepError:
        pass  # what the hosts were told is checked word by word
    _check_notes(world, noted)
    _check_told(world, abort)


class _Eager:
    """Exchanges enqueued call by call, by every rank whose host has not refused."""

    def __init__(self, world: Buffers, abort: Abort):
        self._world = world
        self._abort = abort
        self._ended: set[int] = set()
        self._noted: list[_Noted] = []

    def enqueue(self, loads: Sequence[Load], seed: int) -> list[_Noted]:
        for index, load in enumerate(loads):
            sent = payload.draw(self._world, load, seed + index)
            _be_late(self._world, self._abort, index)
            self._refuse(index, 0)
            received = self._dispatch(_spoilt(self._world, sent, self._abort, index), sent, load.bucket)
            self._refuse(index, 1)
            self._combine(sent, received)
        return self._noted

    def _refuse(self, exchange: int, half: int) -> None:
        way = self._abort.way
        if isinstance(way, Refusal) and (way.exchange, way.half) == (exchange, half):
            self._world.simulator.native.refuse(self._world.handle, way.rank)
            self._ended.add(way.rank)

    def _dispatch(self, spoilt: Sequence[Sent], sent: Sequence[Sent], bucket: int | None) -> dict[int, Received]:
        for source, one in zip(self._world.sources, spoilt, strict=True):
            if source.rank not in self._ended:
                source.source_dispatch(_rows(one), one.topk_idx, one.topk_weights, bucket=bucket)
        received = {ffn.rank: ffn.ffn_receive(bucket=bucket) for ffn in self._world.ffns if ffn.rank not in self._ended}
        self._noted += [_note_received(self._world, rank, sent, rows) for rank, rows in received.items()]
        return received

    def _combine(self, sent: Sequence[Sent], received: dict[int, Received]) -> None:
        for rank, rows in received.items():
            if rank not in self._ended:
                self._world.buffer(rank).ffn_reply(rows, self._world.expert_transform(rank))
        for source in self._world.sources:
            if source.rank not in self._ended:
                self._noted.append(_note_collected(self._world, source.rank, sent, source.source_collect()))


def _replay(world: Buffers, loads: Sequence[Load], abort: Abort, seed: int) -> list[_Noted]:
    """Exchanges captured once and replayed on the same inputs, with what each replay notes."""
    sent = [payload.draw(world, load, seed + index) for index, load in enumerate(loads)]
    arrays = [graphs.on_ranks(world, one) for one in sent]
    noted: list[_Noted] = []
    exchanges = []
    with world.capture() as graph:
        for index, (load, one) in enumerate(zip(loads, arrays, strict=True)):
            _be_late(world, abort, index)
            received = dispatch(world, one, load.bucket or world.shape.capacity)
            noted += [
                _note_received(world, ffn.rank, sent[index], rows)
                for ffn, rows in zip(world.ffns, received, strict=True)
            ]
            exchanges.append(Exchange(one, received, combine(world, received)))
            noted += [
                _note_collected(world, source.rank, sent[index], collected)
                for source, collected in zip(world.sources, exchanges[-1].collected, strict=True)
            ]
    for index, exchange in enumerate(exchanges):
        graphs.change(exchange, _spoilt(world, sent[index], abort, index))
    for _ in range(_REPLAYS):
        graph.replay()
    return noted * _REPLAYS


def _rows(sent: Sent) -> object:
    return sent.x if sent.scales is None else (sent.x, sent.scales)


def _be_late(world: Buffers, abort: Abort, exchange: int) -> None:
    if abort.late is not None and abort.late.exchange == exchange:
        world.delay(abort.late.rank, abort.late.delay_us)


def _spoilt(world: Buffers, sent: Sequence[Sent], abort: Abort, exchange: int) -> list[Sent]:
    """What the sources send, with the bad route in it where this exchange has one."""
    way, spoilt = abort.way, list(sent)
    if isinstance(way, BadRoute) and way.exchange == exchange:
        index = way.rank - world.layout.ffn_ranks
        ids = spoilt[index].topk_idx.copy()
        ids[way.token, way.lane] = ids[way.token, 0] if way.twice else _NO_EXPERT
        spoilt[index] = replace(spoilt[index], topk_idx=ids)
    return spoilt


def _note_collected(world: Buffers, rank: int, sent: Sequence[Sent], collected: NDArray[Any]) -> _Noted:
    world.simulator.note(world.handle, rank, [collected])
    return _Noted(rank, sent, [collected])


def _note_received(world: Buffers, rank: int, sent: Sequence[Sent], received: Received) -> _Noted:
    arrays = [array for _, array in _arrays(received)]
    world.simulator.note(world.handle, rank, arrays)
    return _Noted(rank, sent, arrays, received)


def _arrays(received: Received) -> list[tuple[str, NDArray[Any]]]:
    names = ("x", "weights", "scales", "expert_offsets", "_metadata", "_rank_prefix")
    return [(name, array) for name in names if (array := getattr(received, name)) is not None]


def _check_notes(world: Buffers, noted: Sequence[_Noted]) -> None:
    for rank in range(world.layout.num_ranks):
        own = [one for one in noted if one.rank == rank]
        if (taken := world.simulator.notes(world.handle, rank)) != len(own):
            raise MismatchError("exchanges that ended", len(own), taken, rank)
        knew = False
        for number, one in enumerate(own):
            word, arrays = world.simulator.read_note(world.handle, rank, number, one.arrays)
            try:
                _check_note(world, one, arrays, word != 0, knew)
            except MismatchError as error:
                error.add_note(f"in exchange {number + 1} of {len(own)}, abort word {word:#x}")
                raise
            knew = word != 0


def _check_note(world: Buffers, one: _Noted, arrays: list[NDArray[Any]], told: bool, knew: bool) -> None:
    """What a rank had, whether its host was told by then, and whether it knew before the exchange began."""
    if one.received is not None:
        names = [name for name, _ in _arrays(one.received)]
        _check_rows(world, one, dict(zip(names, arrays, strict=True)), told, knew)
        return
    wanted = payload.expected(world.shape, one.sent)[one.rank - world.layout.ffn_ranks]
    if not told:
        checks.check_collected(arrays[0], wanted, rank=one.rank)
        return
    bits = arrays[0].view(np.uint16)
    given_up = (bits == 0xFFFF).all(axis=1)
    good = (bits == wanted.view(np.uint16)).all(axis=1) & (not knew)
    if not (given_up | good).all():
        token = int(np.flatnonzero(~(given_up | good))[0])
        raise MismatchError("collected row after an abort", "NaN", "a row", one.rank, source=one.rank, token=token)


def _check_rows(world: Buffers, one: _Noted, fields: dict[str, Any], told: bool, knew: bool) -> None:
    assert one.received is not None
    if not told:
        _check_received(world, one, replace(one.received, **fields))
    elif knew and fields["expert_offsets"].any():
        rows = int(fields["expert_offsets"][-1])
        raise MismatchError("rows of an exchange that was given up", "none", rows, one.rank)


def _check_received(world: Buffers, one: _Noted, received: Received) -> None:
    try:
        checks.check_received(
            received,
            one.sent,
            rank=one.rank,
            num_ffn_ranks=world.layout.ffn_ranks,
            num_experts=world.shape.num_experts,
            expert_alignment=world.shape.expert_alignment,
        )
    except (IndexError, ValueError, OverflowError) as error:  # a way back that leads nowhere
        raise MismatchError("source table", "rows of this rank", str(error), one.rank) from error


def _check_told(world: Buffers, abort: Abort) -> None:
    """Every rank names the one failure, or none has heard of any: a wait that did not come."""
    expected = (int(abort.way.failure), abort.way.rank)
    found = {rank: world.simulator.abort(world.handle, rank) for rank in range(world.layout.num_ranks)}
    if isinstance(abort.way, TimeOut) and all(one is None for one in found.values()):
        return
    for rank, one in found.items():
        if one is None or (one.failure, one.rank) != expected:
            raise MismatchError("abort word", expected, None if one is None else (one.failure, one.rank), rank)
