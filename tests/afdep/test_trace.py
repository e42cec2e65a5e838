"""Recorded ids: read in any integer type, checked to the last lane, and replayed step by step."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afdep import RoutingError, Trace, routing

STEPS, TOKENS, TOP_K, EXPERTS = 3, 8, 4, 16
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
LISTS = [pa.list_(pa.int16()), pa.list_(pa.uint8(), TOP_K), pa.large_list(pa.int64())]


def recorded() -> np.ndarray[Any, Any]:
    return np.stack([routing.make("random", TOKENS, EXPERTS, TOP_K, step) for step in range(STEPS)])


def save(folder: Path, ids: np.ndarray[Any, Any]) -> Path:
    np.save(folder / "ids.npy", ids)
    return folder / "ids.npy"


def save_parquet(folder: Path, ids: np.ndarray[Any, Any], kind: pa.DataType, steps: list[int] | None = None) -> Path:
    columns = {
        "step": steps or np.repeat(np.arange(len(ids)), ids.shape[1]).tolist(),
        "topk_idx": pa.array(ids.reshape(-1, ids.shape[2]).tolist(), kind),
        "layer": [0] * (len(ids) * ids.shape[1]),
    }
    pq.write_table(pa.table(columns), folder / "ids.parquet")
    return folder / "ids.parquet"


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_type_gives_the_same_ids(tmp_path: Path, dtype: str) -> None:
    trace = Trace.load(save(tmp_path, recorded().astype(dtype)), EXPERTS)
    assert trace.ids.dtype == np.int64
    assert np.array_equal(trace.ids, recorded())


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_parquet_gives_the_ids_of_npy(tmp_path: Path, kind: pa.DataType) -> None:
    assert np.array_equal(Trace.load(save_parquet(tmp_path, recorded(), kind), EXPERTS).ids, recorded())


def test_rows_of_a_parquet_step_need_not_stand_together(tmp_path: Path) -> None:
    steps = [0, 1] * (TOKENS * STEPS // 2)
    trace = Trace.load(save_parquet(tmp_path, recorded(), pa.list_(pa.int64()), steps), EXPERTS)
    assert np.array_equal(trace.ids[1], recorded().reshape(-1, TOP_K)[1::2])


def test_the_digest_is_of_the_file(tmp_path: Path) -> None:
    first = Trace.load(save(tmp_path, recorded()), EXPERTS).digest
    assert (first[0], len(first)) == ("i", 17)
    assert Trace.load(save(tmp_path, recorded()), EXPERTS).digest == first
    assert Trace.load(save(tmp_path, recorded()[::-1].copy()), EXPERTS).digest != first


def test_a_lane_without_a_route_is_valid(tmp_path: Path) -> None:
    ids = recorded()
    ids[1, 2] = -1
    assert np.array_equal(Trace.load(save(tmp_path, ids), EXPERTS).ids, ids)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int64", EXPERTS, "ids of 0..15 or -1, received 16 at step 2, token 5, lane 1"),
        ("int64", -2, "received -2 at step 2, token 5, lane 1"),
        ("int64", 2**40, "received 1099511627776 at step 2"),
        ("uint64", 2**64 - 1, "received 9223372036854775807 at step 2"),
        ("uint8", 255, "received 255 at step 2"),
        ("int32", None, "each expert once a token, received .* at step 2, token 5, lane 1"),
    ],
)
def test_an_invalid_id_is_named_with_its_place(tmp_path: Path, dtype: str, value: int | None, message: str) -> None:
    ids = recorded().astype(dtype)
    ids[2, 5, 1] = ids[2, 5, 0] if value is None else value
    with pytest.raises(RoutingError, match=message) as caught:
        Trace.load(save(tmp_path, ids), EXPERTS)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("ids", "received"),
    [
        (np.zeros((2, 3), np.int64), r"int64\[2, 3\]"),
        (np.zeros((2, 3, 4), np.float32), r"float32\[2, 3, 4\]"),
        (np.zeros((2, 3, 4), bool), r"bool\[2, 3, 4\]"),
    ],
    ids=["flat", "float", "bool"],
)
def test_what_is_no_table_of_integers_is_refused(tmp_path: Path, ids: Any, received: str) -> None:
    with pytest.raises(RoutingError, match=received):
        Trace.load(save(tmp_path, ids), EXPERTS)


def test_a_file_that_is_missing_damaged_or_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    (tmp_path / "damaged.npy").write_bytes(b"no array")
    (tmp_path / "damaged.parquet").write_bytes(b"no table")
    for name in ("missing.npy", "empty.npy", "damaged.npy", "damaged.parquet", "ids.csv"):
        with pytest.raises(RoutingError, match=f"trace {name}: expected") as caught:
            Trace.load(tmp_path / name, EXPERTS)
        assert len(str(caught.value).splitlines()) == 2


def test_steps_of_different_sizes_are_refused(tmp_path: Path) -> None:
    steps = [0] * (TOKENS + 1) + [1] * (2 * TOKENS - 1)
    with pytest.raises(RoutingError, match="steps of different numbers of tokens"):
        Trace.load(save_parquet(tmp_path, recorded(), pa.list_(pa.int64()), steps), EXPERTS)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[0, 1], [2], [3, 4, 5]], "tokens of different numbers of ids"),
        ([[0, 1], None, [2, 3]], "tokens of different numbers of ids"),
        ([0, 1, 2], "topk_idx of type int64 and not list"),
    ],
    ids=["ragged", "null", "flat"],
)
def test_a_parquet_column_that_is_no_table_is_refused(tmp_path: Path, column: list[Any], message: str) -> None:
    pq.write_table(pa.table({"step": [0, 0, 0], "topk_idx": column}), tmp_path / "ids.parquet")
    with pytest.raises(RoutingError, match=message):
        Trace.load(tmp_path / "ids.parquet", EXPERTS)


def test_exchanges_take_step_after_step_and_sources_their_own_tokens(tmp_path: Path) -> None:
    trace = Trace.load(save(tmp_path, recorded()), EXPERTS)
    for exchange in range(2 * STEPS):
        for source in range(2):
            wanted = recorded()[exchange % STEPS, 3 * source : 3 * source + 3]
            assert np.array_equal(trace.replay(exchange, source, 3), wanted)


@pytest.mark.parametrize(
    ("tokens", "sources", "top_k", "message"),
    [(4, 3, TOP_K, "4 tokens a step for each of 3 sources, received 3 steps of 8"), (4, 2, 8, "expected top-k 8")],
)
def test_a_trace_too_small_for_the_exchange_is_refused(
    tmp_path: Path, tokens: int, sources: int, top_k: int, message: str
) -> None:
    trace = Trace.load(save(tmp_path, recorded()), EXPERTS)
    trace.check_size(4, 2, TOP_K)
    with pytest.raises(RoutingError, match=message):
        trace.check_size(tokens, sources, top_k)
