"""Bit-exact checks of what an exchange delivered: the rows of an FFN rank and the result of a source."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from afdep.errors import MismatchError
from afdep.reference import Array, Sent
from afdep.routing import NO_ROUTE, Ids

EXPERT, SOURCE, TOKEN, LANE = range(4)
"""Columns of a row table: local expert, source rank, token, lane."""


class ReceivedRows(Protocol):
    """What `ffn_receive` returns, as far as it is checked."""

    @property
    def x(self) -> NDArray[Any]:
        """Rows [rows, H], expert-major."""

    @property
    def weights(self) -> NDArray[Any] | None:
        """fp32 [rows]."""

    @property
    def scales(self) -> NDArray[Any] | None:
        """Scale words [rows, words]."""

    @property
    def expert_offsets(self) -> NDArray[Any]:
        """[experts + 1]: rows of local expert e start at e, and its padding ends at e + 1."""

    @property
    def source(self) -> NDArray[Any]:
        """[rows, 3]: source rank, token, lane; -1 in a padding row."""


def expected_rows(
    topk_idx: Sequence[NDArray[np.int32] | Ids], *, rank: int, num_ffn_ranks: int, num_experts: int
) -> Ids:
    """The rows an FFN rank must receive, one each, in sorted order.

    Args:
        topk_idx: the ids [T, K] of every source, by source index.
        rank: the FFN rank.
        num_ffn_ranks: F; source s is rank F + s.
        num_experts: E.

    Returns:
        int64 [rows, 4]: local expert, source rank, token, lane, sorted by these.
    """
    experts = num_experts // num_ffn_ranks
    tables = []
    for source, ids in enumerate(topk_idx):
        token, lane = np.nonzero(ids // experts == rank)
        local = ids[token, lane] - rank * experts
        tables.append(np.stack([local, np.full_like(token, num_ffn_ranks + source), token, lane], axis=1))
    return _sorted(np.concatenate(tables).astype(np.int64))


def expected_offsets(rows: Ids, experts: int, alignment: int = 1) -> Ids:
    """Where the block of each local expert starts, [experts + 1], for a table of `expected_rows`."""
    counts = np.bincount(rows[:, EXPERT], minlength=experts)
    padded = -(-counts // alignment) * alignment
    return np.concatenate([[0], np.cumsum(padded)])


def check_received(
    received: ReceivedRows,
    sent: Sequence[Sent],
    *,
    rank: int,
    num_ffn_ranks: int,
    num_experts: int,
    expert_alignment: int = 1,
) -> None:
    """Check every row of an FFN rank: offsets, source table, payload, scales and weights, and zeros in the padding.

    Rows of one expert may come in any order. Weights and scales are checked where the sources passed some. Rows past
    the last offset are not looked at.

    Args:
        received: what `ffn_receive` returned.
        sent: what each source sent, by source index.
        rank: the FFN rank.
        num_ffn_ranks: F.
        num_experts: E.
        expert_alignment: rows each expert's block is padded to a multiple of.

    Raises:
        MismatchError: the first difference, with its rank, row, source, token and lane.
    """
    ids = [s.topk_idx for s in sent]
    expected = expected_rows(ids, rank=rank, num_ffn_ranks=num_ffn_ranks, num_experts=num_experts)
    offsets = expected_offsets(expected, num_experts // num_ffn_ranks, expert_alignment)
    _check_offsets(received.expert_offsets, offsets, rank)
    rows = _check_sources(np.asarray(received.source[: offsets[-1]]), offsets, expected, rank)
    for index, source in enumerate(sent):
        mine = expected[:, SOURCE] == num_ffn_ranks + index
        _check_content(received, source, rows[mine], expected[mine], rank)
    _check_padding(received, np.setdiff1d(np.arange(offsets[-1]), rows), rank)


def check_collected(collected: Array, expected: Array, *, rank: int) -> None:
    """Check a source's result [T, H] against `reference.combine`, bit for bit.

    Raises:
        MismatchError: another shape or dtype, or the first token and column that differ.
    """
    if (collected.shape, collected.dtype) != (expected.shape, expected.dtype):
        raise MismatchError("collected array", _kind(expected), _kind(collected), rank)
    if difference := _first_difference(expected, collected):
        token, column, want, got = difference
        raise MismatchError("collected row", want, got, rank, source=rank, token=token, column=column)


def _sorted(table: Ids) -> Ids:
    return table[np.lexsort(table.T[::-1])]


def _check_offsets(received: NDArray[Any], expected: Ids, rank: int) -> None:
    if not np.array_equal(received, expected):
        raise MismatchError("expert_offsets", expected.tolist(), np.asarray(received).tolist(), rank)


def _check_sources(source: Ids, offsets: Ids, expected: Ids, rank: int) -> Ids:
    """The row of each entry of `expected`, once the source table holds exactly these."""
    if source.shape != (offsets[-1], 3):
        raise MismatchError("source table", f"{offsets[-1]} rows of 3", _kind(source), rank)
    experts = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    table = np.concatenate([experts[:, None], source], axis=1).astype(np.int64)
    rows = np.flatnonzero((source != NO_ROUTE).any(axis=1))
    rows = rows[np.lexsort(table[rows].T[::-1])]
    if not np.array_equal(table[rows], expected):
        raise _source_error(table, rows, expected, rank)
    return rows


def _source_error(table: Ids, rows: Ids, expected: Ids, rank: int) -> MismatchError:
    wanted = Counter(map(tuple, expected.tolist()))
    for row in rows.tolist():
        entry = tuple(table[row].tolist())
        wanted[entry] -= 1
        if wanted[entry] < 0:
            return MismatchError(
                f"row of local expert {entry[EXPERT]}", "no such row, or it once", "one more", rank, row, *entry[1:]
            )
    missing = min(entry for entry, count in wanted.items() if count > 0)
    return MismatchError(f"row of local expert {missing[EXPERT]}", "it once", "no row", rank, None, *missing[1:])


def _check_content(received: ReceivedRows, sent: Sent, rows: Ids, expected: Ids, rank: int) -> None:
    tokens, lanes = expected[:, TOKEN], expected[:, LANE]
    compared = [("received row", received.x, sent.x[tokens])]
    if sent.scales is not None:
        compared.append(("received scales", _present(received.scales, "scales", rank), sent.scales[tokens]))
    if sent.topk_weights is not None:
        weights = sent.topk_weights[tokens, lanes]
        compared.append(("received weight", _present(received.weights, "weights", rank)[:, None], weights[:, None]))
    for what, found, want in compared:
        if (found.shape[1:], found.dtype.itemsize) != (want.shape[1:], want.dtype.itemsize):
            raise MismatchError(f"{what} array", _kind(want), _kind(found), rank)
        if difference := _first_difference(want, found[rows]):
            index, column, wanted, got = difference
            source, token, lane = map(int, expected[index, SOURCE:])
            raise MismatchError(what, wanted, got, rank, int(rows[index]), source, token, lane, column)


def _present(array: NDArray[Any] | None, what: str, rank: int) -> NDArray[Any]:
    if array is None:
        raise MismatchError(f"received {what}", "an array", None, rank)
    return array


def _check_padding(received: ReceivedRows, rows: Ids, rank: int) -> None:
    if len(rows) == 0:
        return
    parts = {"row": received.x, "scales": received.scales, "weight": received.weights}
    for name, array in parts.items():
        if array is None:
            continue
        padding = array[rows].reshape(len(rows), -1)
        if difference := _first_difference(np.zeros_like(padding), padding):
            index, column, want, got = difference
            raise MismatchError(f"padding {name}", want, got, rank, int(rows[index]), column=column)


def _kind(array: NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _first_difference(expected: NDArray[Any], received: NDArray[Any]) -> tuple[int, int, str, str] | None:
    """The row, column and bits of the first difference of two arrays [n, m] of one dtype."""
    unsigned = np.dtype(f"u{expected.dtype.itemsize}")
    want = np.ascontiguousarray(expected).view(unsigned)
    got = np.ascontiguousarray(received).view(unsigned)
    if np.array_equal(want, got):
        return None
    row, column = map(int, np.argwhere(want != got)[0])
    return row, column, f"{want[row, column]:#x}", f"{got[row, column]:#x}"
