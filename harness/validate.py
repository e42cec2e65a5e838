"""From a composed configuration to a `ScreenConfig`: every value is read strictly, once, here."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afdep.arms import Arm
from afdep.dtypes import DISPATCH_DTYPES
from afdep.layout import Layout
from afdep.routing import KINDS
from afdep.shapes import ExchangeShape
from afdep.trace import Trace
from harness import arms as arm_names
from harness import sections
from harness.colocation import planned
from harness.screen_config import TRACE, WORKING_TREE, ArmChoice, Exchange, Row, ScreenConfig
from harness.errors import ConfigError
from harness.words import (
    as_choice,
    as_count,
    as_distinct,
    as_flag,
    as_list,
    as_name,
    as_word,
    as_word_or_none,
    refuse_repeats,
)
from harness.workspace import REPOSITORY

LAYOUT_FORM = "a layout as 2A2F"
ARM_FORM = "an arm as m2n or afdep"
ROUTINGS = (*KINDS, TRACE)
ROW_KEYS = ("layout", "hidden", "dtype", "routing", "experts")

Data = Mapping[str, Any]


def screen_config(config: Data, routings: Mapping[str, Data], repository: Path = REPOSITORY) -> ScreenConfig:
    """Validate a composed configuration.

    Args:
        config: plain data, as `compose` returns it.
        routings: the options of the group `routing` by name; their numbers hold for every row of that kind.
        repository: where a relative path of a trace starts.

    Raises:
        ConfigError: rows or arms that no screen can be planned from.
        ValueReadError: a value of another type than its key takes.
        AfdepError: a layout, arm, hidden size, expert count or bucket that the kernels do not carry, or a trace that
            is not valid or too small.
    """
    screen = config["screen"]
    declared_aa = as_flag("screen.declared_aa", screen["declared_aa"])
    backend = sections.backend(config)
    read = ScreenConfig(
        name=as_name("screen.name", screen["name"]),
        published=as_word_or_none("screen.published", screen["published"], "a name or none"),
        declared_aa=declared_aa,
        rows=_rows(config, screen, routings),
        tokens=tuple(as_count("tokens", value, minimum=0) for value in _axis(config, "tokens")),
        arms=_arms(config, declared_aa, backend.name),
        exchange=sections.exchange(config),
        backend=backend,
        launcher=sections.launcher(config),
    )
    _check_shapes(read)
    return _with_trace(read, as_word_or_none("trace", config["trace"], "a name or none"), repository)


def _with_trace(read: ScreenConfig, name: str | None, repository: Path) -> ScreenConfig:
    """The screen with recorded ids named by their digest, once they are checked against the rows that take them."""
    taking = [row for row in read.rows if row.routing == TRACE]
    if (name is None) != (not taking):
        received = f"rows of {', '.join(dict.fromkeys(row.routing for row in read.rows))} and trace={name or 'none'}"
        next_step = "Write routing=trace trace=FILE, with a .npy or .parquet file, or neither of the two."
        raise ConfigError(f"trace: expected a file for the routing trace alone, received {received}.", next_step)
    if name is None:
        return read
    path = (repository / name).resolve()
    digests = {experts: _checked_trace(read, path, experts) for experts in {row.experts for row in taking}}
    rows = (
        replace(row, routing=f"{TRACE}@{digests[row.experts]}") if row.routing == TRACE else row for row in read.rows
    )
    return replace(read, rows=tuple(rows), trace=path)


def _checked_trace(read: ScreenConfig, path: Path, experts: int) -> str:
    trace = Trace.load(path, experts)
    for row in read.rows:
        if (row.routing, row.experts) == (TRACE, experts):
            trace.check_size(max(read.tokens), Layout.parse(row.layout).attention_ranks, read.exchange.top_k)
    return trace.digest


def _axis(config: Data, axis: str) -> list[object]:
    return as_distinct(axis, _values(config, axis))


def _values(config: Data, axis: str) -> object:
    section = config.get(axis)
    return section.get("values") if isinstance(section, Mapping) else None


def _arms(config: Data, declared_aa: bool, backend: str) -> tuple[ArmChoice, ...]:
    spellings = [as_word("arm", value, ARM_FORM) for value in as_list("arm", _values(config, "arm"))]
    names = [arm_names.canonical(spelling, backend) for spelling in spellings]
    trees = sections.section(config, "trees", ("baseline", "candidate"))
    baseline, candidate = (
        as_word(f"trees.{side}", trees[side], f"a git revision or {WORKING_TREE}") for side in ("baseline", "candidate")
    )
    if len(names) == 1 and baseline != candidate:
        spellings, names = spellings * 2, names * 2
    if len(names) < 2:
        raise ConfigError(
            f"arm: expected a baseline and at least one arm to compare, received {', '.join(names)}.",
            "Write arm=[m2n,afdep], or give the two trees different revisions.",
        )
    arms = tuple(ArmChoice(name, candidate if index else baseline) for index, name in enumerate(names))
    if not declared_aa:
        meanings = [f"{arm.name} of the tree {arm.tree}" for arm in arms]
        refuse_repeats("arm", spellings, meanings, "Drop one of them, or declare an A/A: screen.declared_aa=true.")
    return arms


def _rows(config: Data, screen: Data, routings: Mapping[str, Data]) -> tuple[Row, ...]:
    if "rows" in screen:
        entries = as_list("screen.rows", screen["rows"])
        rows = [_row(sections.section({"row": one}, "row", ROW_KEYS), routings) for one in entries]
        refuse_repeats("screen.rows", entries, rows, "Drop one of them.")
        return _selected(config, rows)
    layouts = _axis(config, "layout")
    refuse_repeats("layout", layouts, [_canonical("layout", one) for one in layouts], "Drop one of them.")
    combinations = itertools.product(*(_axis(config, axis) for axis in ROW_KEYS[:-1]))
    return tuple(_row(dict(zip(ROW_KEYS, (*one, screen["experts"]), strict=True)), routings) for one in combinations)


def _row(data: Data, routings: Mapping[str, Data]) -> Row:
    kind = as_choice("routing", data["routing"], ROUTINGS)
    return Row(
        layout=str(Layout.parse(as_word("layout", data["layout"], LAYOUT_FORM))),
        hidden=as_count("hidden", data["hidden"], minimum=1),
        dtype=as_choice("dtype", data["dtype"], DISPATCH_DTYPES),
        routing=kind,
        zipf_exponent=routings[kind].get("zipf_exponent"),
        experts=as_count("experts", data["experts"], minimum=1),
    )


def _selected(config: Data, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows of the screen that the axes given beside it name."""
    kept = tuple(rows)
    for axis in ROW_KEYS[:-1]:
        if axis in config:
            wanted = [_canonical(axis, value) for value in _axis(config, axis)]
            kept = tuple(row for row in kept if getattr(row, axis) in wanted)
    if not kept:
        known = "; ".join(f"{row.layout} {row.hidden} {row.dtype} {row.routing}" for row in rows)
        raise ConfigError(
            "rows: expected at least one that the axes select, received none.",
            f"This screen has {known}. screen=grid takes any combination.",
        )
    return kept


def _canonical(axis: str, value: object) -> object:
    if axis == "hidden":
        return as_count(axis, value, minimum=1)
    if axis == "layout":
        return str(Layout.parse(as_word(axis, value, LAYOUT_FORM)))
    return as_choice(axis, value, DISPATCH_DTYPES if axis == "dtype" else ROUTINGS)


def _check_shapes(config: ScreenConfig) -> None:
    for row, arm in itertools.product(config.rows, config.arms):
        shape = _shape(row, config.exchange)
        if config.backend.device is not None:
            planned(shape.layout, config.backend.ranks_per_gpu)
        if not arm_names.is_external(arm.name):
            shape.check_protocol(Arm.parse(arm.name).protocol)
        for tokens in config.tokens:
            shape.check_bucket(tokens, config.bucket(tokens))


def _shape(row: Row, exchange: Exchange) -> ExchangeShape:
    return ExchangeShape(Layout.parse(row.layout), **exchange.shape_of(row))
