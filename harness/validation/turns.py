"""What the sources send in each exchange of a trial: drawn from its seed alone, alike for every backend and rank."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afdep import fp8, reference, routing
from afdep.layout import Layout
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.validation.cases import Trial

_ZIPF_EXPONENT = 1.0


@dataclass(frozen=True)
class Wrong:
    """A route that is planted: where, and what the kernels must call it."""

    name: str
    rank: int
    token: int
    lane: int
    expert: int


@dataclass(frozen=True)
class Turn:
    """One exchange.

    Args:
        bucket: of every rank.
        sent: rows, ids and weights by source, as many as it has tokens.
        wrong: the planted route, or None.
    """

    bucket: int
    sent: Sequence[Sent]
    wrong: Wrong | None = None


def turns(trial: Trial, shape: ExchangeShape) -> list[Turn]:
    """Every exchange of a trial, with fresh payload, routes and weights each."""
    made = [_turn(trial, shape, exchange) for exchange in range(trial.case.exchanges)]
    return [*made[:-1], _spoiled(trial, shape, made[-1])] if trial.case.invalid else made


def _turn(trial: Trial, shape: ExchangeShape, exchange: int) -> Turn:
    bucket = trial.bucket(exchange)
    sources = range(shape.layout.attention_ranks)
    return Turn(bucket, [_sent(trial, shape, source, exchange, min(bucket, trial.shape.tokens)) for source in sources])


def _sent(trial: Trial, shape: ExchangeShape, source: int, exchange: int, tokens: int) -> Sent:
    amount, seed = trial.amount(source, exchange), (trial.seed * 1000 + exchange) * 64 + source
    idle = amount == "none" or (amount == "idle" and exchange < trial.case.exchanges - 1)
    count = 0 if idle else 1 if amount == "one" else tokens
    ids = _ids(trial, shape, count, seed)
    if amount == "skipped":
        ids[...] = routing.NO_ROUTE
    weights = np.random.default_rng(seed).random(ids.shape, np.float32)
    if shape.dtype.groups_per_word == 0:
        return Sent(reference.payload(count, shape.hidden, seed), ids, weights)
    x, scales = fp8.payload(count, shape.hidden, shape.dtype, seed)
    return Sent(x, ids, weights, scales)


def _ids(trial: Trial, shape: ExchangeShape, count: int, seed: int) -> routing.Ids:
    kind = trial.shape.routing
    options: dict[str, Any] = {"zipf_exponent": _ZIPF_EXPONENT} if kind == "skew" else {}
    if kind in ("spread", "all-to-one"):
        options["num_ffn_ranks"] = shape.layout.ffn_ranks
    return routing.make(kind, count, shape.num_experts, shape.top_k, seed, **options)


def _spoiled(trial: Trial, shape: ExchangeShape, turn: Turn) -> Turn:
    """The exchange with a wrong route in the last lane of the last token of the last source."""
    layout: Layout = shape.layout
    own = turn.sent[-1]
    token, lane, ids = len(own.x) - 1, shape.top_k - 1, own.topk_idx.copy()
    experts = {"beyond": shape.num_experts, "below": -2, "wide": 2**32, "duplicate": int(ids[token, 0])}
    expert = experts[str(trial.case.invalid)]
    ids[token, lane] = expert
    name = "duplicate_expert" if trial.case.invalid == "duplicate" else "expert_out_of_range"
    wrong = Wrong(name, layout.num_ranks - 1, token, lane, expert)
    return replace(turn, sent=[*turn.sent[:-1], replace(own, topk_idx=ids)], wrong=wrong)
