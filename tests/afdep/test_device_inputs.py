"""Where the tensors of a Buffer's calls must lie, on tensors of the host that say they lie on a GPU."""

import pytest

pytest.importorskip("torch")
import torch

from afdep import ExchangeShape, Layout, ShapeError
from afdep.cuda import inputs
from tests.afdep.fake_cuda import Row, row

SHAPE = ExchangeShape(Layout.parse("1A1F"), 256, 16, 4, 64, "bf16")
FP8 = ExchangeShape(Layout.parse("1A1F"), 256, 16, 4, 64, "fp8")
WORDS = FP8.dtype.scale_bytes(FP8.hidden) // 4


class Elsewhere(Row):
    """A row of GPU 1, while GPU 0 is the current one."""

    device = torch.device("cuda", 1)


@pytest.fixture(autouse=True)
def gpu_0_is_current(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


def given(dtype="bf16"):
    """Arguments of a dispatch of 8 tokens, by name."""
    rows = row(8, 256) if dtype == "bf16" else row(8, 256, dtype=torch.float8_e4m3fn)
    named = {"x": rows, "topk_idx": row(8, 4, dtype=torch.int64), "topk_weights": row(8, 4, dtype=torch.float32)}
    named["num_tokens"] = row(1, dtype=torch.int32)
    return named | ({"scales": row(8, WORDS, dtype=torch.float32)} if dtype == "fp8" else {})


def checked(x, topk_idx, topk_weights, num_tokens, scales=None):
    shape, sent = (SHAPE, x) if scales is None else (FP8, (x, scales))
    return inputs.outgoing(shape, sent, topk_idx, topk_weights, 64, num_tokens)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_tensors_of_the_current_gpu_are_taken_as_they_are(dtype):
    named = given(dtype)
    sent = checked(**named)
    assert sent.x is named["x"]
    assert sent.scales is named.get("scales")
    assert sent.ids is named["topk_idx"]


@pytest.mark.parametrize("name", ["x", "scales", "topk_idx", "topk_weights", "num_tokens"])
def test_a_tensor_of_another_gpu_is_refused_by_name(name):
    named = given("fp8")
    named[name] = named[name].as_subclass(Elsewhere)
    with pytest.raises(ShapeError, match=f"^{name}: expected on the current GPU, cuda:0, received 'cuda:1'") as raised:
        checked(**named)
    assert len(str(raised.value).splitlines()) == 2


def test_replies_of_another_gpu_are_refused():
    with pytest.raises(ShapeError, match="out: expected on the current GPU, cuda:0, received 'cuda:1'"):
        inputs.check_replies(SHAPE, row(8, 256).as_subclass(Elsewhere), 8)


def beyond(count):
    """8 BF16 rows that start so many elements behind an aligned address."""
    return row(8 * 256 + count)[count:].view(8, 256)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_rows_that_are_not_aligned_are_refused(count):
    with pytest.raises(
        ShapeError, match=f"x: expected memory aligned to 16 bytes, received '{count * 2} bytes beyond'"
    ):
        checked(**(given() | {"x": beyond(count)}))
    with pytest.raises(ShapeError, match="out: expected memory aligned to 16 bytes"):
        inputs.check_replies(SHAPE, beyond(count), 8)


def test_rows_that_start_at_an_aligned_element_are_taken():
    assert checked(**(given() | {"x": beyond(8)})).tokens == 8
    inputs.check_replies(SHAPE, beyond(8), 8)
