"""Scenarios of an FFN rank 0 and a source 1 in which something is wrong."""

import os
import time
from contextlib import contextmanager
from typing import Any

import torch

from afdep import build, controls
from afdep.cuda.memory import to_device
from tests.device.exchanges import captured, drawn, exchange, is_poisoned, on_gpu, pass_on
from tests.device.player import Stage, raised

ENDS_WITH_A_FAILURE = False

OTHER: dict[str, Any] = {
    "capacity": 32,
    "hidden": 512,
    "top_k": 2,
    "num_experts": 32,
    "dispatch_dtype": "fp8",
    "transport_sms": 16,
    "expert_alignment": 4,
}


def ranks_made_differently(stage: Stage) -> dict[str, Any]:
    """By field: what making a Buffer raises where one rank has another value, and in how many seconds."""
    return {name: _timed(stage, **({name: value} if stage.rank else {})) for name, value in OTHER.items()}


def environments_that_differ(stage: Stage) -> dict[str, Any]:
    """The same, by a variable that is set for one rank alone."""
    found = {}
    values = {control.name: "1" for control in controls.CONTROLS}
    values |= {"CXX": "no-compiler", "XDG_CACHE_HOME": str(stage.folder)}
    if stage.rank:
        (stage.folder / "afdep-comm").symlink_to(build.cache_folder())
    for name, value in values.items():
        with _set(name if stage.rank else "UNREAD", value):
            found[name] = _timed(stage)
    return found


def _timed(stage: Stage, **changes: Any) -> dict[str, Any]:
    started = time.monotonic()
    said = raised(lambda: stage.buffer(**changes).close())
    return {"said": said, "seconds": time.monotonic() - started}


@contextmanager
def _set(name: str, value: str) -> Any:
    before = os.environ.get(name)
    os.environ[name] = value
    yield
    os.environ.pop(name) if before is None else os.environ.update({name: before})


def refused_shape(stage: Stage) -> str:
    return raised(lambda: stage.buffer(hidden=2049 if stage.rank else 256))


def silent_ffn(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=0)


def silent_source(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=1)


def _without(stage: Stage, silent: int, arm: str = "afdep") -> dict[str, Any]:
    """A whole exchange, one that a rank stays away from, and the next call."""
    buffer = stage.buffer(arm=arm)
    exchange(buffer)
    if stage.rank == silent:
        return {}
    y: list[Any] = []
    started = time.monotonic()
    said = raised(lambda: exchange(buffer, seed=1, y=y))
    found = {"said": said, "seconds": time.monotonic() - started, "next": raised(lambda: exchange(buffer))}
    return found | {"poisoned": [is_poisoned(one) for one in y]}


def silent_ffn_of_the_symmetric_arm(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=0, arm="m2n")


def refused_call(stage: Stage) -> str:
    buffer = stage.buffer()
    rows, ids = drawn(buffer, 16, 0)
    if stage.rank == 0:
        return raised(lambda: exchange(buffer))
    x, routes = on_gpu(rows[:, :128].copy(), ids)
    return raised(lambda: buffer.source_dispatch(x, routes, bucket=16))


def refused_call_in_a_capture(stage: Stage) -> str:
    """The graph holds an exchange and is never replayed: what the peer learns comes from the refused call itself."""
    buffer = stage.buffer()
    exchange(buffer)
    if stage.rank == 0:
        stage.wait_for("refused", at_most_s=20)
        return raised(lambda: exchange(buffer))
    x, ids = on_gpu(*drawn(buffer, 16, 0))
    said: list[str] = []

    def enqueue() -> None:
        buffer.source_dispatch(x, ids, bucket=16)
        buffer.source_collect()
        said.append(raised(lambda: buffer.source_dispatch(x[:, :128].contiguous(), ids, bucket=16)))

    captured(enqueue)
    stage.leave("refused")
    return said[0]


def wrong_id(stage: Stage) -> str:
    return raised(lambda: _dispatch(stage, 13, None))


def wrong_id_in_a_graph(stage: Stage) -> str:
    buffer = stage.buffer()
    exchange(buffer)
    if stage.rank == 0:
        graph = captured(lambda: pass_on(buffer, 16))
    else:
        rows, ids = drawn(buffer, 16, 0)
        x, routes = on_gpu(rows, ids)
        graph = captured(lambda: (buffer.source_dispatch(x, routes, bucket=16), buffer.source_collect()))
        graph.replay()
        buffer.synchronize()
        routes[3, 2] = 16
    if stage.rank == 0:
        graph.replay()
    graph.replay()
    return raised(buffer.synchronize)


def too_many_tokens(stage: Stage) -> str:
    return raised(lambda: _dispatch(stage, 0, 17))


def _dispatch(stage: Stage, first_expert: int, num_tokens: int | None) -> None:
    """An exchange whose routes start at an expert, with the tokens counted in a word where a number is given."""
    buffer = stage.buffer()
    if stage.rank == 0:
        pass_on(buffer, 16)
        buffer.synchronize()
        return
    routes = torch.arange(4, device="cuda").repeat(16, 1) + first_expert
    word = None if num_tokens is None else torch.tensor([num_tokens], dtype=torch.int32, device="cuda")
    x = torch.ones((16, 256), dtype=torch.bfloat16, device="cuda")
    buffer.source_dispatch(x, routes.contiguous(), bucket=16, num_tokens=word)
    buffer.source_collect()
    buffer.synchronize()


def other_bucket(stage: Stage) -> str:
    buffer = stage.buffer()
    return raised(lambda: exchange(buffer, tokens=16 if stage.rank else 32))


def wrong_order(stage: Stage) -> str:
    buffer = stage.buffer()
    return raised(lambda: buffer.ffn_reply(None, None) if stage.rank == 0 else buffer.source_collect())


def captures(stage: Stage) -> dict[str, str]:
    """What calls inside a capture raise, each caught there; the captures themselves go on and replay."""
    counter, found = torch.zeros((), device="cuda"), {}

    def attempt(name: str, action: Any) -> None:
        def enqueue() -> None:
            found[name] = raised(action)
            counter.add_(1)

        before = float(counter)
        captured(enqueue).replay()
        found[f"{name}, capture"] = "ok" if float(counter) == before + 1 else "harmed"

    attempt("construction", stage.buffer)
    buffer = stage.buffer()
    x, ids = torch.ones((16, 256), dtype=torch.bfloat16, device="cuda"), to_device(drawn(buffer, 16, 0)[1])

    def first() -> None:
        if stage.rank == 0:
            pass_on(buffer, 16)
            return
        buffer.source_dispatch(x, ids, bucket=16)
        buffer.source_collect()

    attempt("first exchange", first)
    exchange(buffer)
    attempt("synchronize", buffer.synchronize)
    if stage.rank == 0:
        attempt("host counts", lambda: buffer.ffn_receive(bucket=16, host_counts=True))
    graph = captured(first)
    graph.replay()
    found["exchange afterwards"] = raised(buffer.synchronize)
    return found
