"""Trials on GPUs: this process is one rank, and every rank runs the same trials in step with its peers."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afdep.cuda import agreement, on_host
from afdep.cuda.memory import to_numpy
from afdep.errors import MismatchError
from afdep.reference import Sent
from harness.core.journal import FAILED
from harness.ranks import proving
from harness.studies.validate.exchange import Brought, Setup
from harness.studies.validate.protocol import PeerFailedError
from harness.studies.validate.ranks import Inputs, Ranks
from harness.study import VoidError

_TIMEOUT_S, _FIRST_TIMEOUT_S = 3.0, 10.0
"""Of one wait on the device. Ranks meet before each exchange; ahead of the first, torch may still load kernels."""

LIMIT_S = 30.0
"""When a rank ends that is still in a trial: every wait on the device has long timed out by then."""

_CYCLES_PER_US = 2000
"""No GPU of the kind runs its SMs faster, so a pause of so many cycles is as long as was asked for, or longer."""

STUCK = 70
"""Exit status of a rank that was ended because it hung."""


def open_ranks(setup: Setup, group: Any) -> "DeviceRank":
    """This rank's Buffer; collective.

    Raises:
        VoidError: the GPUs have no room for the kernels of all ranks at once.
        AgreementError: ranks of which FFN ranks alone have a control refuse each other.
    """
    room, wanted = group.session.job.room, setup.trial.transport_sms
    if room is not None and wanted > room:
        raise VoidError(f"ranks that share GPUs have room for {room} transport SMs each, not for {wanted}")
    return DeviceRank(setup, group)


def meet(problem: str | None = None) -> None:
    """Meet the hosts of the other ranks; collective."""
    try:
        said = agreement.first_problem(None, problem)
    except RuntimeError as error:  # of the transport: a process has ended
        said, problem = f"a rank is gone: {next(iter(str(error).splitlines()), '')}", None
    if said is not None and problem is None:
        raise PeerFailedError(said, "Look at that rank.")


@contextmanager
def watched(group: Any, limit_s: float = LIMIT_S, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """A block that may take so long: else this rank says where it hangs, and its process ends."""
    watch = threading.Timer(limit_s, _end_stuck, [threading.get_ident(), group, limit_s, end])
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _end_stuck(thread: int, group: Any, limit_s: float, end: Callable[[int], object]) -> None:
    """In a thread of its own, which no wait of the host or the device holds up."""
    calls = traceback.extract_stack(sys._current_frames().get(thread))
    own = [one.name for one in calls if {"harness", "afdep"} & set(Path(one.filename).parts)]
    where = " > ".join(own[-4:]) or "nothing of this tree"
    try:
        group.session.mouth.say(FAILED, reason=f"still in {where} after {limit_s:.0f} s")
    finally:  # nobody else would end it
        end(STUCK)


class DeviceRank(Ranks):
    """One rank; its making is collective.

    Args:
        setup: of the trial.
        group: of all ranks.
    """

    def __init__(self, setup: Setup, group: Any):
        told = {"arm": setup.arm(group.rank), "timeout_s": _TIMEOUT_S, "first_timeout_s": _FIRST_TIMEOUT_S}
        self.buffer = group.buffer(**setup.buffer_fields(), **told)
        super().__init__(setup, [self.buffer], self.buffer.identity)
        self._before: tuple[Any, Any] = (None, None)
        self._pauses: list[tuple[Any, Any]] = []

    def close(self) -> None:
        """Give everything back; collective."""
        super().close()
        self.buffer.close()

    def arguments(self, sent: Sequence[Sent]) -> list[tuple[Any, Any, Any]]:
        """Copies on its GPU."""
        return proving.arguments(sent)

    def inputs(self, sent: Sequence[Sent]) -> list[Inputs]:
        """Copies on its GPU."""
        return [Inputs(own, torch.zeros(1, dtype=torch.int32, device="cuda")) for own in self.arguments(sent)]

    def poison(self, bucket: int) -> None:
        """This rank's, once its inputs are written; no peer's first record may meet poison that is still to come."""
        self.buffer.poison(bucket)
        self.buffer.synchronize()
        meet()

    def transformed(self, ffn: Any, received: Any) -> Any:
        """Into a tensor of its own."""
        out = torch.empty((len(received.x), self.setup.trial.hidden), dtype=torch.bfloat16, device="cuda")
        ffn.expert_transform(received, out)
        return out

    def pause(self, rank: int, us: int) -> None:
        """A pause of the current stream, between two events."""
        if us:
            external = torch.cuda.is_current_stream_capturing()
            before, after = (torch.cuda.Event(enable_timing=True, external=external) for _ in range(2))
            before.record()
            torch.cuda._sleep(us * _CYCLES_PER_US)
            after.record()
            self._pauses.append((before, after))

    def captured(self, bucket: int) -> tuple[Any, list[Inputs], Brought]:
        """As any rank's, behind an exchange without tokens ahead of the first capture: peers may still be loading."""
        if not self.graphs:
            self.enqueue(bucket, self.arguments(self.unrouted(0)))
            self.buffer.synchronize()
            self._pauses.clear()
        return super().captured(bucket)

    @contextmanager
    def capturing(self) -> Iterator[Any]:
        """A capture of the current stream."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            yield graph

    def settle(self, brought: Brought) -> float:
        """Compare the host counts of the exchange before now that another is under way, and wait for the GPU.

        What ran before a pause and what runs behind it are as far apart as its events.
        """
        counts, offsets = self._before
        if brought and counts is not None:
            found, wanted = list(counts.rows), np.diff(offsets).tolist()
            if found != wanted:
                raise MismatchError("host counts", wanted, found, self.buffer.rank)
            self.counted += 1
        self.buffer.synchronize()
        pause_us = max((before.elapsed_time(after) * 1e3 for before, after in self._pauses), default=0.0)
        if self.setup.trial.mode == "eager":
            self._pauses.clear()
        return pause_us

    def fetched(self, found: Any) -> Any:
        """A copy on the host."""
        if isinstance(found, torch.Tensor):
            return to_numpy(found)
        received = on_host(found)
        self._before = found.host_counts, received.expert_offsets
        return received
