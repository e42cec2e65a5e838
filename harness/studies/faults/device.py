"""Trials on GPUs, as one rank runs them: the library of each trial is loaded beside those of the trials before.

A rank ends where its GPU, or a peer, is of no more use; ranks are then started anew for the trials behind.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from afdep.cuda import agreement
from afdep.device_errors import DeviceError
from afdep.errors import MismatchError
from afdep.proof import payload
from harness.ranks import loads, proving
from harness.ranks.cells import Shape
from harness.studies.faults.mutants import NUM_PLACES
from harness.studies.faults.rounds import MISMATCH, STUCK, RoundError, run_trial, words
from harness.studies.faults.trials import EXACT, Trial
from harness.study import Batch, Edit, Said

_HELD_CYCLES = 1_000_000
"""The device holds a round until the host has enqueued all of it: so long for each exchange, half a ms at 2 GHz."""
_POLL_S = 0.0005
_UNREADABLE = (MismatchError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
"""What is raised over rows that are not as they must be: counts may be anything, and rows lie anywhere."""

Payload = tuple[list[list[Any]], list[tuple[Any, Any, Any]], list[Any]]


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run this rank's part of every trial, or of those up to one that ends it."""
    _load_kernels_of_torch()
    group.turn()
    payloads: dict[Shape, Payload] = {}
    for index, trial in enumerate(batch.trials):
        facts: dict[str, Any] = {}
        make = partial(GpuRank, trial, trial.edits(batch), group, payloads)
        is_usable = run_trial(make, group.settings.rounds, partial(agreement.gathered, None), facts)
        yield Said(index, facts)
        if not is_usable:
            return
        if facts["ended"] != EXACT:  # its kernels may have written anywhere: what others are compared with goes
            payloads.clear()


class GpuRank:
    """One rank with its Buffer, as `run_trial` takes it; its making is collective.

    Args:
        trial: what is run.
        edits: of its library.
        group: of the ranks.
        payloads: what exchanges hold, by shape.

    Raises:
        DeviceError: CUDA refused.
        VoidError: another library than was built.
    """

    def __init__(self, trial: Trial, edits: Sequence[Edit], group: Any, payloads: dict[Shape, Payload]):
        settings = group.settings
        self._shape, self._stuck_s = trial.shape(settings.shape), settings.stuck_s
        self.buffer = group.buffer(
            edits,
            layout=trial.layout,
            arm=trial.arm,
            maker="ipc",
            timeout_s=settings.timeout_s,
            first_timeout_s=settings.timeout_s,
            **self._shape.fields,
        )
        self.close: Callable[[], None] = self.buffer.close
        self.digest = str(self.buffer.identity["digest"])
        self.exchanges = self._shape.exchanges
        if self._shape not in payloads:  # now, and not while kernels of a peer wait for it
            payloads[self._shape] = _drawn(self.buffer, self._shape, settings.seed)
        self._sent, self._arguments, self._wanted = payloads[self._shape]
        self.marks: Callable[[], Sequence[int]] = tuple
        if edits:
            places = trial.late_places(self.buffer.rank, self.buffer.layout.num_ranks)
            self.marks = _Faults(group.built(edits).path, dict.fromkeys(places, settings.late_us)).marks
        self._results = torch.empty(
            (len(self._arguments) * self._shape.tokens, self._shape.hidden), dtype=torch.int16, device="cuda"
        )

    def run_round(self, number: int) -> int:
        """Exchanges one behind the other over poisoned memory, then compared: how many were exact."""
        self._results.fill_(-1)  # the bits of a NaN
        self.buffer.poison(self._shape.tokens)
        self._wait()
        agreement.gathered(None, EXACT)  # no peer's first record meets poison that is still to come
        torch.cuda._sleep(_HELD_CYCLES * self.exchanges)
        if self.buffer.role == "attention":
            results = self._results.view(torch.bfloat16).split(self._shape.tokens)
            for (x, ids, weights), y in zip(self._arguments, results, strict=True):
                self.buffer.source_dispatch(x, ids, weights, self._shape.tokens)
                self.buffer.source_collect(out=y)
            self._wait()
            self._compare_collected()
        else:
            received = proving.serve(self.buffer, self.exchanges, self._shape.tokens)
            self._wait()
            self._compare_received(received)
        return self.exchanges

    def _wait(self) -> None:
        """Wait for what is enqueued, however long it takes to say that it hangs; then what the kernels say."""
        done = torch.cuda.Event()
        done.record()
        ends = time.monotonic() + self._stuck_s
        while not done.query():
            if time.monotonic() > ends:
                raise RoundError(STUCK, f"kernels that still run after {self._stuck_s:.0f} s")
            time.sleep(_POLL_S)
        self.buffer.synchronize()

    def _compare_collected(self) -> None:
        pairs = zip(self._results.split(self._shape.tokens), self._wanted, strict=True)
        for exact, (found, wanted) in enumerate(pairs):
            if not torch.equal(found, wanted):
                said = f"{_difference(found, wanted)}, exchange {exact + 1} of its round"
                raise RoundError(MISMATCH, said, exact)

    def _compare_received(self, received: Any) -> None:
        """Compare what the last exchange brought, all that is left of a round here: sources compare every exchange."""
        try:
            proving.check_received(self.buffer, received, self._sent[-1])
        except _UNREADABLE as error:
            unread = "" if isinstance(error, MismatchError) else "unreadable rows: "
            raise RoundError(MISMATCH, f"{unread}{words(error)}") from error


def _difference(found: Any, wanted: Any) -> str:
    rows = (found != wanted).any(dim=1)
    poisoned = (found == -1).all(dim=1) & rows
    return f"{int(rows.sum())} of {len(rows)} collected rows differ, {int(poisoned.sum())} of them unwritten"


def _drawn(buffer: Any, shape: Shape, seed: int) -> Payload:
    """The exchanges of a shape; no two have the same rows, routes or weights.

    Returns:
        What is sent, by exchange and source; what this source passes in each exchange: rows, ids, weights; the bits
        that it must collect in each, int16 [T, H]. The last two are empty on an FFN rank.
    """
    seeds, sources = range(seed, seed + shape.exchanges), range(buffer.layout.attention_ranks)
    routes = [loads.random(shape, [64 * one + source for source in sources]) for one in seeds]
    sent = [payload.draw(buffer, load, one) for load, one in zip(routes, seeds, strict=True)]
    source = buffer.rank - buffer.layout.ffn_ranks
    own = [by_source[source] for by_source in sent] if source >= 0 else []
    wanted = [proving.rows_on_gpu(payload.expected(buffer.shape, [one])[0]).view(torch.int16) for one in own]
    return sent, proving.arguments(own), wanted


class _Faults:
    """What an edited library does beside the usual: it holds threads up at some places, and tells which have run.

    Args:
        library: its path.
        late_us: delays by place; what has run before is forgotten.

    Raises:
        DeviceError: CUDA refused.
    """

    def __init__(self, library: str, late_us: Mapping[int, int]):
        self._library = ctypes.CDLL(library)
        self._library.afdep_faults_told.restype = ctypes.POINTER(ctypes.c_uint32)
        values = (ctypes.c_uint32 * NUM_PLACES)(*(late_us.get(place, 0) for place in range(NUM_PLACES)))
        if self._library.afdep_faults_set(values) != 0:
            self._library.afdep_cuda_error.restype = ctypes.c_char_p
            raise DeviceError(self._library.afdep_cuda_error().decode())

    def marks(self) -> tuple[int, ...]:
        """Numbers of the places that ran."""
        words_of_host = self._library.afdep_faults_told()
        return tuple(place for place in range(NUM_PLACES) if words_of_host and words_of_host[place])


def _load_kernels_of_torch() -> None:
    """What is launched beside spinning kernels must be loaded before: a load may wait for an idle device."""
    bits = torch.empty((2, 8), dtype=torch.int16, device="cuda").fill_(-1)
    torch.equal(bits, bits.clone())
    _difference(bits, bits.clone())
    torch.cuda._sleep(1)
    torch.cuda.synchronize()
