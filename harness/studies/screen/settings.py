"""From composed configuration to the settings of a screen: rows, cells, arms and their trees."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from afdep import Arm, Layout, Trace
from afdep.routing import KINDS
from afdep.shapes import ExchangeShape
from harness.config.compose import load_options
from harness.config.read import NONE, distinct, listed, one_of, read, value, word
from harness.core.fields import Count, Dtype, LayoutName, Name, Text
from harness.core.planning import Wanted
from harness.desk.desk import Desk
from harness.errors import ConfigError, ValueReadError
from harness.machine.gpus import planned
from harness.ranks.cells import TRACE, Backend, Cell, Exchange, Row
from harness.report import published
from harness.studies.screen.program import ArmChoice, Settings
from harness.study import Asked

EXTERNAL = ("nccl", "deepep")
"""Libraries that a screen measures without building them."""
ROUTINGS = (*KINDS, TRACE)
AXES = ("layout", "hidden", "dtype", "routing")
_KINDS: Mapping[str, Any] = {"layout": LayoutName, "hidden": Count, "dtype": Dtype, "tokens": int}

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Trees:
    """Where arms come from.

    Args:
        baseline: of the first arm, a revision or `working` for the working tree.
        candidate: of the other arms, likewise.
    """

    baseline: Annotated[str, Text("a git revision")]
    candidate: Annotated[str, Text("a git revision")]


SECTIONS = {"exchange": Exchange, "backend": Backend, "row": Row, "screen": Settings, "trees": Trees}


def wanted(config: Data, desk: Desk) -> Wanted:
    """Read a composed configuration.

    Raises:
        ConfigError: rows or arms that no screen can be planned from.
        ValueReadError: a value of another type than its key takes.
        PublishedError: no such published table.
        AfdepError: a layout, arm, hidden size, expert count or bucket that the kernels do not carry, or a trace that
            is not valid or too small.
    """
    screen = config["screen"]
    declared_aa = value(bool, screen["declared_aa"], "screen.declared_aa")
    backend = read(Backend, config["backend"], "backend")
    trees, arms = _arms(config, declared_aa, backend.name)
    beside = value(str | None, screen["published"], "screen.published")
    if beside is not None:
        published.load(beside)
    exchange = read(Exchange, config["exchange"], "exchange")
    if exchange.collect != "copy":
        raise ConfigError(
            f"exchange.collect: expected copy, received {exchange.collect}: these kernels copy results out.",
            "Write exchange.collect=copy; view is in archived plans of other kernels.",
        )
    settings = Settings(
        name=value(Name, screen["name"], "screen.name"),
        rows=_rows(config, screen, load_options("routing", desk.conf)),
        tokens=tuple(_axis(config, "tokens")),
        arms=arms,
        exchange=exchange,
        backend=backend,
        published=beside,
        declared_aa=declared_aa,
        num_trees=len(set(trees)),
    )
    _check_shapes(settings)
    settings, path = _with_trace(settings, config["trace"], desk)
    asked = tuple(_asked(settings, one) for one in arms)
    return Wanted("screen", settings.name, settings, tuple(dict.fromkeys(trees)), asked, trace=path)


def _asked(settings: Settings, arm: ArmChoice) -> Asked:
    cell = Cell(arm.name, settings.rows[0], settings.exchange, settings.backend, settings.tokens[0])
    return Asked(arm.name, arm.tree, settings.backend.name, None if arm.name in EXTERNAL else cell.world)


def _with_trace(settings: Settings, told: Any, desk: Desk) -> tuple[Settings, Path | None]:
    """The screen with recorded ids named by their digest, once they are checked against the rows that take them."""
    name = value(str | None, told, "trace")
    kinds = dict.fromkeys(row.routing for row in settings.rows)
    if (name is None) != (TRACE not in kinds):
        raise ConfigError(
            "trace: expected a file for the routing trace alone, received rows of "
            f"{', '.join(kinds)} and trace={name or NONE}.",
            "Write routing=trace trace=FILE, with a .npy or .parquet file, or neither of the two.",
        )
    if name is None:
        return settings, None
    path = desk.path(name)
    rows = tuple(replace(row, routing=_checked_trace(settings, row, path)) for row in settings.rows)
    return replace(settings, rows=rows), path


def _checked_trace(settings: Settings, row: Row, path: Path) -> str:
    if row.routing != TRACE:
        return row.routing
    trace = Trace.load(path, row.num_experts)
    trace.check_size(max(settings.tokens), Layout.parse(row.layout).attention_ranks, settings.exchange.top_k)
    return f"{TRACE}@{trace.digest}"


def _axis(config: Data, axis: str) -> list[Any]:
    section = config.get(axis)
    values = distinct(axis, section.get("values") if isinstance(section, Mapping) else None)
    if not values:
        raise ValueReadError(f"{axis}: expected at least one, received none.", f"Write {axis}=[first,second].")
    return distinct(axis, [_canonical(axis, one) for one in values])


def _arms(config: Data, declared_aa: bool, backend: str) -> tuple[list[str], tuple[ArmChoice, ...]]:
    """The trees by name, and the arms with the index of their tree."""
    section = config["arm"]
    entries = section.get("values") if isinstance(section, Mapping) else None
    names = [_arm_name(word("arm", one, "an arm as m2n or afdep"), backend) for one in listed("arm", entries)]
    told = read(Trees, config["trees"], "trees")
    trees = (told.baseline, told.candidate)
    if len(names) == 1 and trees[0] != trees[1]:
        names = names * 2
    if len(names) < 2:
        raise ConfigError(
            f"arm: expected a baseline and at least one arm to compare, received {', '.join(names) or 'none'}.",
            "Write arm=[m2n,afdep], or give the two trees different revisions.",
        )
    used = [trees[min(index, 1)] for index in range(len(names))]
    meanings = list(zip(names, used, strict=True))
    repeated = [one for index, one in enumerate(meanings) if one in meanings[:index]]
    if repeated and not declared_aa:
        name, tree = repeated[0]
        raise ValueReadError(
            f"arm: expected each entry once, received {name} of the tree {tree} twice.",
            "Drop one of them, or declare an A/A: screen.declared_aa=true.",
        )
    order = list(dict.fromkeys(used))
    return order, tuple(ArmChoice(name, order.index(tree)) for name, tree in meanings)


def _arm_name(text: str, backend: str) -> str:
    if text not in EXTERNAL:
        return Arm.parse(text).name
    if backend != "cuda":
        raise ConfigError(f"arm {text}: expected a screen on GPUs, received backend {backend}.", "Add backend=cuda.")
    return text


def _rows(config: Data, screen: Data, routings: Mapping[str, Data]) -> tuple[Row, ...]:
    if "rows" in screen:
        return _selected(config, [_row(one, routings) for one in distinct("screen.rows", screen["rows"])])
    combinations = itertools.product(*(_axis(config, axis) for axis in AXES))
    return tuple(
        _row({**dict(zip(AXES, one, strict=True)), "experts": screen["experts"]}, routings) for one in combinations
    )


def _row(data: Data, routings: Mapping[str, Data]) -> Row:
    kind = one_of("routing", data["routing"], ROUTINGS)
    experts = value(Count, data["experts"], "screen.experts")
    told = {**data, "num_experts": experts, "zipf_exponent": routings[kind].get("zipf_exponent")}
    return read(Row, {name: held for name, held in told.items() if name != "experts"}, "row")


def _selected(config: Data, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows of the screen that the axes given beside it name."""
    chosen = {axis: _axis(config, axis) for axis in AXES if axis in config}
    kept = tuple(row for row in rows if all(getattr(row, axis) in values for axis, values in chosen.items()))
    if not kept:
        known = "; ".join(f"{row.layout} {row.hidden} {row.dtype} {row.routing}" for row in rows)
        raise ConfigError(
            "rows: expected at least one that the axes select, received none.",
            f"This screen has {known}. screen=grid takes any combination.",
        )
    return kept


def _canonical(axis: str, one: Any) -> Any:
    return one_of(axis, one, ROUTINGS) if axis == "routing" else value(_KINDS[axis], one, axis)


def _check_shapes(settings: Settings) -> None:
    for row, arm in itertools.product(settings.rows, settings.arms):
        shape = ExchangeShape(Layout.parse(row.layout), **settings.exchange.shape_of(row))
        if settings.backend.device is not None:
            planned(shape.layout, settings.backend.ranks_per_gpu)
        if arm.name not in EXTERNAL:
            shape.check_protocol(Arm.parse(arm.name).protocol)
        for tokens in settings.tokens:
            shape.check_bucket(tokens, settings.exchange.bucket or max(1, tokens))
