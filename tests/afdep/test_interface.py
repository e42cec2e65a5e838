"""Both Buffers have one interface, whose documentation stands once."""

import inspect
import sys
from typing import Any

import numpy as np
import pytest

import afdep
from afdep import ExchangeBuffer, OrderError, Received, SimBuffer, TorchMissingError, World

CALLS = ("source_dispatch", "source_collect", "ffn_receive", "ffn_reply")


def buffer_class(name: str) -> type[ExchangeBuffer]:
    if name == "Buffer":
        pytest.importorskip("torch")
    return getattr(afdep, name)  # type: ignore[no-any-return]


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


by_class = pytest.mark.parametrize("name", ["Buffer", "SimBuffer"])


@by_class
@pytest.mark.parametrize("call", CALLS)
def test_a_call_inherits_its_documentation_and_repeats_none(name: str, call: str) -> None:
    own, shared = getattr(buffer_class(name), call), getattr(ExchangeBuffer, call)
    assert own.__doc__ is None
    assert inspect.getdoc(own) == inspect.getdoc(shared)


@by_class
@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_what_the_interface_says_and_whatever_else_is_optional(name: str, call: str) -> None:
    own, shared = getattr(buffer_class(name), call), getattr(ExchangeBuffer, call)
    names = parameters(own)
    assert names[: len(parameters(shared))] == parameters(shared)
    more = [inspect.signature(own).parameters[other] for other in names[len(parameters(shared)) :]]
    assert all(one.default is not inspect.Parameter.empty for one in more)


@pytest.mark.parametrize("call", CALLS)
def test_every_argument_of_a_call_is_documented(call: str) -> None:
    text = inspect.getdoc(getattr(ExchangeBuffer, call)) or ""
    assert all(f"\n    {name}: " in text for name in parameters(getattr(ExchangeBuffer, call)))


def test_the_interface_alone_is_no_buffer() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ExchangeBuffer(None, 0)  # type: ignore[abstract, arg-type]


def test_the_source_of_a_row_is_read_from_what_was_received() -> None:
    metadata = np.array([[5, 7, 0, -1], [8, 9, 2, 1]], np.int32)  # source 1's token 1 and source 2's token 0, of 4
    received = Received(None, None, None, np.array([0, 2, 4]), metadata, np.array([0, 1, 2]), 4)
    assert received.num_tokens == 2
    assert received.source.tolist() == [[1, 1, 0], [2, 0, 1], [2, 0, 0], [-1, -1, -1]]


def test_a_reply_to_nothing_is_refused() -> None:
    world = World("1A1F", hidden=64, num_experts=2, top_k=1, capacity=4)
    assert isinstance(world.ffns[0], SimBuffer)
    with pytest.raises(OrderError, match="expected ffn_receive before it"):
        world.ffns[0].ffn_reply(None, None)


def test_a_buffer_where_torch_is_missing_names_the_extra_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("afdep.cuda")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(vars(afdep), "Buffer", raising=False)
    with pytest.raises(TorchMissingError, match=r"expected torch[^\n]*\n[^\n]*'afdep-comm\[torch\]'") as raised:
        _ = afdep.Buffer
    assert isinstance(raised.value, ImportError)
