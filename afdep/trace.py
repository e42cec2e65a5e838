"""Expert ids recorded from a model, replayed step by step."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from afdep.errors import RoutingError, choices
from afdep.routing import Ids, first_invalid

FORMATS = (".npy", ".parquet")
STEP, IDS = "step", "topk_idx"
"""Columns of a Parquet trace: an integer, and a list of K integers, with one row a token."""

_READ_NEXT = "Record int ids [steps, tokens, top-k] as .npy, or as Parquet with the columns step and topk_idx."


@dataclass(frozen=True)
class Trace:
    """Recorded routes.

    Args:
        ids: int64 [steps, tokens, K], valid: below the number of experts, distinct within a token, or -1.
        digest: `i` and 16 hexadecimal digits of sha256 over the file.
    """

    ids: NDArray[np.int64]
    digest: str

    @classmethod
    def load(cls, path: Path, num_experts: int) -> "Trace":
        """Read a trace of any integer type and check every id.

        Args:
            path: of a .npy file [steps, tokens, K], or of a Parquet file with the columns `step` and `topk_idx`, whose
                rows are the tokens; every step has as many, in the order they stand there.
            num_experts: E.

        Raises:
            RoutingError: a file of another format, type or shape, or an id out of range or twice in a token, with its
                step, token and lane.
        """
        if path.suffix not in FORMATS:
            problem = f"trace {path.name}: expected a file {' or '.join(FORMATS)}, received {path.suffix or 'none'}."
            raise RoutingError(problem, choices(path.suffix, FORMATS))
        try:
            content = path.read_bytes()
            recorded = _read_npy(path) if path.suffix == ".npy" else _read_parquet(path)
        except (OSError, EOFError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise RoutingError(
                f"trace {path.name}: expected a readable trace, received: {reason}.", _READ_NEXT
            ) from error
        ids = _as_int64(recorded, path.name)
        _check_ids(ids, num_experts, path.name)
        return cls(ids, f"i{hashlib.sha256(content).hexdigest()[:16]}")

    def check_size(self, tokens: int, sources: int, top_k: int) -> None:
        """Check that every step has the tokens of all sources, and tokens the lanes of the exchange.

        Raises:
            RoutingError: what is missing.
        """
        steps, recorded, lanes = self.ids.shape
        if lanes != top_k:
            problem = f"trace {self.digest}: expected top-k {top_k}, received {lanes}."
            raise RoutingError(problem, f"Write exchange.top_k={lanes}, or record another trace.")
        if tokens * sources > recorded or steps == 0:
            problem = f"trace {self.digest}: expected {tokens} tokens a step for each of {sources} sources, received "
            raise RoutingError(f"{problem}{steps} steps of {recorded}.", "Take fewer tokens, or record more a step.")

    def replay(self, exchange: int, source: int, tokens: int) -> Ids:
        """The ids of one source in one exchange.

        Args:
            exchange: from 0; each takes the next step, and after the last one the first again.
            source: source s takes the tokens from s * tokens on.
            tokens: T.

        Returns:
            int64 [T, K].
        """
        return self.ids[exchange % len(self.ids), source * tokens : (source + 1) * tokens]


def _read_npy(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _read_parquet(path: Path) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=[STEP, IDS], use_threads=False, pre_buffer=False)
    steps, lists = table.column(STEP).to_numpy(), table.column(IDS).combine_chunks()
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(lists.type) for is_kind in kinds):
        raise ValueError(f"{IDS} of type {lists.type} and not list")
    _, tokens = np.unique(steps, return_counts=True)
    lanes = pc.unique(pc.list_value_length(lists)).to_pylist()
    if len(set(tokens.tolist())) != 1 or len(lanes) != 1 or None in lanes:
        raise ValueError("steps of different numbers of tokens, or tokens of different numbers of ids")
    flat: NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(steps), lanes[0])[np.argsort(steps, kind="stable")].reshape(len(tokens), -1, lanes[0])


def _as_int64(recorded: NDArray[Any], name: str) -> Ids:
    if recorded.dtype.kind not in "iu" or recorded.ndim != 3:
        received = f"{recorded.dtype}{list(recorded.shape)}"
        raise RoutingError(f"trace {name}: expected integers [steps, tokens, top-k], received {received}.", _READ_NEXT)
    if recorded.dtype == np.uint64:
        recorded = np.minimum(recorded, np.uint64(np.iinfo(np.int64).max))  # would wrap, some of it to -1
    return recorded.astype(np.int64)


def _check_ids(ids: Ids, num_experts: int, name: str) -> None:
    invalid = first_invalid(ids.reshape(-1, ids.shape[2]), num_experts)
    if invalid is None:
        return
    expected: dict[Literal["range", "duplicate"], str] = {
        "range": f"ids of 0..{num_experts - 1} or -1",
        "duplicate": "each expert once a token",
    }
    step, token = divmod(invalid.token, ids.shape[1])
    raise RoutingError(
        f"trace {name}: expected {expected[invalid.kind]}, received {invalid.id} at step {step}, token {token}, "
        f"lane {invalid.lane}.",
        "Mend the recording, or give the screen the experts of the model it came from.",
    )
