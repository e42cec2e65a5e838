"""What sources send and collect in the exchanges of a shape: drawn and worked out once, then held on the GPU."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from afdep import proof, reference, routing
from afdep.cuda.memory import to_device
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.device.proving import rows_on_gpu
from harness.faults.trials import Trial


@dataclass
class Drawn:
    """The exchanges of a shape, by exchange and source; no two exchanges have the same rows, routes or weights."""

    shape: ExchangeShape
    sent: list[list[Sent]]
    source: int | None

    @cached_property
    def arguments(self) -> list[tuple[Any, Any, Any]]:
        """What this source passes in each exchange: rows, ids, weights."""
        return [(rows_on_gpu(one.x), to_device(one.topk_idx), _weights(one)) for one in self._own]

    @cached_property
    def wanted(self) -> list[Any]:
        """The bits that this source must collect in each, int16 [T, H]."""
        return [rows_on_gpu(proof.expected(self.shape, [one])[0]).view(torch.int16) for one in self._own]

    @property
    def _own(self) -> list[Sent]:
        assert self.source is not None
        return [by_source[self.source] for by_source in self.sent]


def _weights(one: Sent) -> Any:
    assert one.topk_weights is not None
    return to_device(one.topk_weights)


class Payloads:
    """The exchanges of every shape that was asked for."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[Any, ...], Drawn] = {}

    def of(self, trial: Trial, shape: ExchangeShape, source: int | None) -> Drawn:
        """The exchanges of a trial; one drawn for another trial of this shape serves."""
        key = (trial.layout, *vars(trial.shape).values(), trial.seed)
        if key not in self._drawn:
            self._drawn[key] = drawn = Drawn(shape, sent(trial, shape), source)
            if source is not None:  # now, and not while kernels of a peer wait for it
                assert len(drawn.arguments) == len(drawn.wanted)
        return self._drawn[key]


def sent(trial: Trial, shape: ExchangeShape) -> list[list[Sent]]:
    """What every source sends in every exchange, drawn from the trial's seed alone."""
    sources = range(shape.layout.attention_ranks)
    return [[_sent(trial, exchange * 64 + source) for source in sources] for exchange in range(trial.shape.exchanges)]


def _sent(trial: Trial, number: int) -> Sent:
    shape, seed = trial.shape, trial.seed * 100_000 + number
    ids = routing.make("random", shape.tokens, shape.num_experts, shape.top_k, seed)
    weights = np.random.default_rng(seed).random(ids.shape, np.float32)
    return Sent(reference.payload(shape.tokens, shape.hidden, seed), ids, weights)
