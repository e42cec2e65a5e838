"""Trials on GPUs: this process is one rank, and every rank runs the same trials in step with its peers."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afdep.cuda import agreement, on_host
from afdep.cuda.memory import to_device, to_numpy
from afdep.errors import BuildError, MismatchError
from afdep.proof import checks
from afdep.reference import Sent
from harness.core.journal import FAILED
from harness.ranks import contract
from harness.ranks.proving import uploaded
from harness.studies.validate.cases import Setup
from harness.studies.validate.exchange import Brought, Inputs, Ranks, Turn
from harness.studies.validate.protocol import Backend, PeerFailedError
from harness.study import VoidError

_TIMEOUT_S, _FIRST_TIMEOUT_S = 3.0, 10.0
"""Of one wait on the device. Ranks meet before each exchange; ahead of the first, torch may still load kernels."""

LIMIT_S = 30.0
"""When a rank ends that is still in a trial: every wait on the device has long timed out by then."""

_CYCLES_PER_US = 2000
"""No GPU of the kind runs its SMs faster, so a pause of so many cycles is as long as was asked for, or longer."""

STUCK = 70
"""Exit status of a rank that was ended because it hung."""

_TICK_S = 0.25


def make(group: Any) -> "Gpus":
    """The backend of a rank, with the library built.

    Raises:
        VoidError: there is none, and none can be built.
    """
    try:
        group.session.opened(**contract.built("cuda", group.library))
    except BuildError as error:
        raise VoidError(error.problem) from error
    return Gpus(group)


class Gpus(Backend):
    """One rank of each trial.

    Args:
        group: of all ranks.
        limit_s: when this process ends that is still in a trial.
        end: ends it.
    """

    def __init__(self, group: Any, limit_s: float = LIMIT_S, end: Callable[[int], object] = os._exit):
        self._group, self._limit_s, self._end = group, limit_s, end
        self._thread, self._deadline = threading.get_ident(), float("inf")
        threading.Thread(target=self._watch, daemon=True).start()

    def open(self, setup: Setup) -> "DeviceRank":
        """This rank's Buffer; collective.

        Raises:
            VoidError: the GPUs have no room for the kernels of all ranks at once.
            AgreementError: ranks of which FFN ranks alone have a control refuse each other.
        """
        room, wanted = self._group.session.job.room, setup.trial.transport_sms
        if room is not None and wanted > room:
            raise VoidError(f"ranks that share GPUs have room for {room} transport SMs each, not for {wanted}")
        return DeviceRank(setup, self._group, self.meet)

    def meet(self, problem: str | None = None) -> None:
        """Meet the hosts of the other ranks; collective."""
        try:
            said = agreement.first_problem(None, problem)
        except RuntimeError as error:  # of the transport: a process has ended
            said, problem = f"a rank is gone: {next(iter(str(error).splitlines()), '')}", None
        if said is not None and problem is None:
            raise PeerFailedError(said, "Look at that rank.")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A block that may take so long: else this rank says where it hangs, and its process ends."""
        self._deadline = time.monotonic() + self._limit_s
        try:
            yield
        finally:
            self._deadline = float("inf")

    def _watch(self) -> None:
        """In a thread of its own, which no wait of the host or the device holds up."""
        while time.monotonic() < self._deadline:
            time.sleep(_TICK_S)
        try:
            self._group.session.mouth.say(FAILED, reason=f"still in {self._where()} after {self._limit_s:.0f} s")
        finally:  # nobody else would end it
            self._end(STUCK)

    def _where(self) -> str:
        """The innermost calls of the watched thread, as far as they are this tree's."""
        calls = traceback.extract_stack(sys._current_frames().get(self._thread))
        own = [one.name for one in calls if {"harness", "afdep"} & set(Path(one.filename).parts)]
        return " > ".join(own[-4:]) or "nothing of this tree"


class DeviceRank(Ranks):
    """One rank; its making is collective.

    Args:
        setup: of the trial.
        group: of all ranks.
        meet: meets their hosts.
    """

    informed = 1

    def __init__(self, setup: Setup, group: Any, meet: Callable[[], None]):
        told = {"arm": setup.arm(group.rank), "timeout_s": _TIMEOUT_S, "first_timeout_s": _FIRST_TIMEOUT_S}
        self.buffer = group.buffer(**setup.buffer_fields(), **told)
        super().__init__(setup, [self.buffer], self.buffer.identity)
        self._meet = meet
        self._before: tuple[Turn, Any] | None = None
        self._pauses: list[tuple[Any, Any]] = []

    def close(self) -> None:
        """Give everything back; collective."""
        super().close()
        self._before = None
        self.buffer.close()

    def arguments(self, sent: Sent) -> tuple[Any, Any, Any]:
        """Copies on its GPU."""
        return uploaded(sent), to_device(sent.topk_idx), to_device(sent.topk_weights)  # type: ignore[arg-type]

    def inputs(self, rank: int, bucket: int) -> Inputs:
        """Tensors without a token that has a route."""
        shape = self.setup.shape
        words = shape.dtype.scale_bytes(shape.hidden) // 4
        x = torch.zeros((bucket, shape.hidden), dtype=torch.float32, device="cuda")
        return Inputs(
            x=x.to(torch.float8_e4m3fn if words else torch.bfloat16),
            scales=torch.zeros((bucket, words), dtype=torch.int32, device="cuda") if words else None,
            ids=torch.full((bucket, shape.top_k), -1, dtype=torch.int64, device="cuda"),
            weights=torch.zeros((bucket, shape.top_k), dtype=torch.float32, device="cuda"),
            count=torch.zeros(1, dtype=torch.int32, device="cuda"),
        )

    def poison(self, bucket: int) -> None:
        """This rank's, once its inputs are written; no peer's first record may meet poison that is still to come."""
        self.buffer.poison(bucket)
        self.buffer.synchronize()
        self._meet()

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
            empty = [self.inputs(one.rank, bucket).arguments for one in self.sources]
            self.enqueue(bucket, empty, [0] * len(empty))
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

    def settle(self, turn: Turn | None, brought: Brought) -> None:
        """Wait for the GPU. An exchange is late where its pause took as long as was asked for."""
        if turn is not None and self.setup.case.host_counts and self.ffns:
            self._compare_counts(turn, brought[self.buffer.rank])
        self.buffer.synchronize()
        asked = self.setup.case.delay_ffn_us + self.setup.case.delay_source_us
        self.late += any(before.elapsed_time(after) * 1e3 >= asked for before, after in self._pauses)
        if self.setup.trial.mode == "eager":
            self._pauses.clear()

    def fetched(self, found: Any) -> Any:
        """A copy on the host."""
        return to_numpy(found) if isinstance(found, torch.Tensor) else on_host(found)

    def _compare_counts(self, turn: Turn, received: Any) -> None:
        """Compare the counts of the exchange before on the host, now that this one is under way."""
        before, self._before = self._before, (turn, received)
        if before is None:
            return
        found = list(before[1].host_counts.rows)
        if (wanted := self._counts(before[0])) != found:
            raise MismatchError("host counts", wanted, found, self.buffer.rank)
        self.counted += 1

    def _counts(self, turn: Turn) -> list[int]:
        """Rows of each expert of this rank, by the reference."""
        rank, shape = self.buffer.rank, self.setup.shape
        numbers = {"num_ffn_ranks": shape.layout.ffn_ranks, "num_experts": shape.num_experts}
        rows = checks.expected_rows([one.topk_idx for one in turn.sent], rank=rank, **numbers)
        counts: list[int] = np.bincount(rows[:, checks.EXPERT], minlength=shape.experts_per_rank).tolist()
        return counts
