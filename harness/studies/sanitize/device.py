"""One rank of 1A1F under a tool."""

from collections.abc import Iterator
from typing import Any

from afdep import routing
from afdep.routing import Load
from harness.core.process import in_words
from harness.ranks import proving
from harness.ranks.cells import Shape
from harness.study import Batch, Said


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """A few exchanges, called by the host and compared bit for bit; the process ends well, for its tool's sake."""
    (trial,), shape = batch.trials, group.settings.shape
    group.turn()
    waits = dict.fromkeys(("timeout_s", "first_timeout_s"), group.settings.timeout_s)
    buffer = group.buffer(layout=batch.layout, arm=trial.arm, maker="ipc", **shape.fields, **waits)
    facts: dict[str, Any] = {"digest": str(buffer.identity["digest"]), "exchanges": 0}
    try:
        proving.prove(buffer, [_load(shape, seed) for seed in range(shape.exchanges)], shape.tokens, 0)
        buffer.close()
        facts["exchanges"] = shape.exchanges
    except Exception as error:
        facts["failed"] = in_words(error)
    yield Said(0, facts)


def _load(shape: Shape, seed: int) -> Load:
    return Load([routing.make("random", shape.tokens, shape.num_experts, shape.top_k, seed)])
