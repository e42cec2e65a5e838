"""What ends a Buffer: a failure on the device, a call that was refused, or that it was closed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from afdep.cuda.rank import NativeRank
from afdep.cuda.streams import outside_capture
from afdep.errors import AfdepError, DeadBufferError


class Life:
    """A Buffer's, from its construction to the first thing that ends it.

    Args:
        end: of the rank.
        stream: of the Buffer.
    """

    def __init__(self, end: NativeRank, stream: Any):
        self._end = end
        self._stream = stream
        self._ended_by: str | None = None

    def require(self) -> None:
        """Refuse a call on a Buffer whose end the host knows of; it does not ask the device.

        Raises:
            DeadBufferError
        """
        if self._ended_by is not None:
            raise DeadBufferError(self._ended_by)

    def end(self, reason: str) -> None:
        """Nothing more is exchanged; the first reason stays."""
        self._ended_by = self._ended_by or reason

    def check_failure(self) -> None:
        """Raise what the rank's kernels gave up with, if they did; it ends the Buffer."""
        try:
            self._end.check_failure()
        except AfdepError as error:
            self.end(error.problem)
            raise

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """A context in which an exception ends the Buffer, and the peers are told."""
        try:
            yield
        except Exception as error:
            self.end(error.problem if isinstance(error, AfdepError) else str(error))
            self._tell(error)
            raise

    def _tell(self, error: Exception) -> None:
        """Tell the peers now, not as a graph is replayed: behind the stream's work, unless a capture holds the stream.

        A launch on a stream that is not captured is allowed in every mode of capture, and its kernel was loaded as the
        Buffer was made.
        """
        try:
            self._end.call("cuda_refuse", outside_capture(self._stream).cuda_stream)
        except AfdepError as untold:
            error.add_note(f"The peers could not be told, and will time out: {untold.problem}")
