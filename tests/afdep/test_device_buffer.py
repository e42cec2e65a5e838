"""The host side of a Buffer, on fake streams: what is told to peers, kept alive and refused."""

import pytest

pytest.importorskip("torch")
import torch

from afdep import CaptureError, DeadBufferError, DeviceError, LayoutError, ShapeError
from afdep.cuda.streams import outside_capture
from tests.afdep.fake_cuda import Cuda, Stream, row

ROWS = 16


@pytest.fixture
def cuda(monkeypatch):
    return Cuda(monkeypatch)


def arguments():
    return row(ROWS, 256), row(ROWS, 4, dtype=torch.int64)


def exchange(buffer, out=None):
    buffer.source_dispatch(*arguments())
    return buffer.source_collect(out=row(ROWS, 256) if out is None else out)


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"layout": "1A"}, LayoutError), ({"layout": "2A1F"}, LayoutError), ({"hidden": 255}, ShapeError)],
    ids=["unread layout", "other size of group", "shape"],
)
def test_peers_are_told_of_what_a_constructor_refuses(cuda, changes, error):
    with pytest.raises(error):
        cuda.source(**changes)
    assert cuda.told == [None]


def test_peers_are_told_of_a_construction_under_capture(cuda):
    with cuda.capturing(), pytest.raises(CaptureError):
        cuda.source()
    assert cuda.told == [None]


def test_a_construction_that_succeeds_tells_what_peers_rely_on(cuda):
    cuda.source()
    assert [own["hidden"] for own in cuda.told] == [256]


def test_ids_and_the_word_of_tokens_live_until_the_stream_has_collected(cuda):
    buffer = cuda.source()
    x, ids = arguments()
    word = row(1, dtype=torch.int32)
    buffer.source_dispatch(x, ids, num_tokens=word)
    assert (buffer._sent.ids is ids, buffer._sent.num_tokens is word) == (True, True)
    buffer.source_collect(out=row(ROWS, 256))
    assert buffer._sent is None
    assert [len(one.recorded) for one in (x, ids, word)] == [1, 2, 2]


@pytest.mark.parametrize("call", ["cuda_source_dispatch", "cuda_source_collect"])
def test_peers_are_told_of_a_launch_that_fails_and_the_buffer_is_dead(cuda, call):
    buffer = cuda.source()
    cuda.end.failing = {call}
    with pytest.raises(DeviceError, match=f"{call} refused"):
        exchange(buffer)
    assert cuda.launched("cuda_refuse") == [buffer._stream.cuda_stream]
    with pytest.raises(DeadBufferError, match=f"{call} refused"):
        exchange(buffer)


def test_the_current_stream_waits_also_for_a_launch_that_failed(cuda):
    buffer = cuda.source()
    cuda.end.failing = {"cuda_source_dispatch"}
    with pytest.raises(DeviceError):
        exchange(buffer)
    last = [entry for entry in cuda.log if entry[0] == "waits"][-1]
    assert last == ("waits", cuda.current.cuda_stream, buffer._stream.cuda_stream)


def test_peers_that_cannot_be_told_are_mentioned_beside_the_reason(cuda):
    buffer = cuda.source()
    cuda.end.failing = {"cuda_source_dispatch", "cuda_refuse"}
    with pytest.raises(DeviceError, match="cuda_source_dispatch refused") as raised:
        exchange(buffer)
    assert "cuda_refuse refused" in raised.value.__notes__[0]


def test_a_refusal_under_capture_is_launched_outside_of_it(cuda):
    buffer = cuda.source()
    exchange(buffer)
    with cuda.capturing():
        exchange(buffer)
        captured_streams = {cuda.current.cuda_stream, buffer._stream.cuda_stream}
        with pytest.raises(ShapeError, match="x:"):
            buffer.source_dispatch(row(ROWS, 128), arguments()[1])
    (told_on,) = cuda.launched("cuda_refuse")
    assert told_on not in captured_streams


def test_a_refusal_without_a_capture_is_behind_what_the_buffer_has_enqueued(cuda):
    buffer = cuda.source()
    exchange(buffer)
    with pytest.raises(ShapeError, match="x:"):
        buffer.source_dispatch(row(ROWS, 128), arguments()[1])
    assert cuda.launched("cuda_refuse") == [buffer._stream.cuda_stream]


def test_a_refused_output_leaves_the_exchange_open(cuda):
    buffer = cuda.source()
    with pytest.raises(ShapeError, match="out"):
        exchange(buffer, row(ROWS, 128))
    buffer.source_collect(out=row(ROWS, 256))
    assert cuda.launched("cuda_refuse") == []


def test_no_part_of_the_first_exchange_is_captured(cuda):
    buffer = cuda.source()
    with cuda.capturing(), pytest.raises(CaptureError, match="source_dispatch"):
        exchange(buffer)
    buffer.source_dispatch(*arguments())
    with cuda.capturing(), pytest.raises(CaptureError, match="source_collect"):
        buffer.source_collect(out=row(ROWS, 256))
    buffer.source_collect(out=row(ROWS, 256))
    with cuda.capturing():
        exchange(buffer)
    assert len(cuda.launched("cuda_source_collect")) == 2


def test_a_second_close_does_nothing(cuda):
    buffer = cuda.source()
    before = cuda.barriers
    buffer.close()
    buffer.close()
    assert (cuda.barriers - before, cuda.end.released) == (1, 1)


def test_a_device_that_fails_as_a_buffer_closes_leaves_no_peer_waiting(cuda, monkeypatch):
    buffer = cuda.source()
    before = cuda.barriers
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        buffer.close()
    assert (cuda.barriers - before, cuda.end.released) == (1, 1)


def test_streams_that_captures_hold_are_passed_over(cuda):
    held = Stream(cuda)
    assert outside_capture(held) is held
    held.captured = True
    assert not outside_capture(held).captured
