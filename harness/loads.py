"""What the sources of a cell send: the routes of each exchange, drawn or recorded."""

import importlib
from typing import Any

from harness.screen_config import Exchange, Row

_MAX_EXCHANGES, _MAX_SOURCES = 1024, 128
"""Bounds that keep the seeds of any two exchanges and sources apart."""


def make(exchange: Exchange, row: Row, tokens: int, num_exchanges: int, trace: Any = None) -> list[Any]:
    """An afdep.Load for each exchange; alike for every arm, pair and attempt of a cell, and other routes in each.

    Args:
        exchange: its top-k and seed.
        row: of the cell.
        tokens: of every source.
        num_exchanges: how many.
        trace: recorded ids, or None.
    """
    afdep = importlib.import_module("afdep")
    layout = afdep.Layout.parse(row.layout)

    def ids(index: int, source: int) -> Any:
        if trace is not None:
            return trace.replay(index, source, tokens)
        return afdep.routing.make(
            row.routing,
            tokens,
            row.experts,
            exchange.top_k,
            (exchange.seed * _MAX_EXCHANGES + index) * _MAX_SOURCES + source,
            zipf_exponent=row.zipf_exponent,
            num_ffn_ranks=layout.ffn_ranks,
        )

    sources = range(layout.attention_ranks)
    return [afdep.Load([ids(index, source) for source in sources]) for index in range(num_exchanges)]
