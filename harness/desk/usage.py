"""Help: the names with their purpose, and the keys of one of them on one screen.

What a key means, its unit and its valid values are read from the docstring and the annotations of its settings, or from
the comment behind it in conf/.
"""

import dataclasses
import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import study
from harness.config.compose import axes_of, compose, flat, groups_of, options
from harness.core.fields import Text, Unit, Within
from harness.desk.desk import MISSING, Desk, Launcher
from harness.records import Envelope, Row, schema
from harness.report.markdown import table

_ACTIONS = {
    "run": "plan the study and run what is not recorded yet (the default)",
    "plan": "write the plan and say what it would take",
    "report": "write the report of what is recorded",
    "archive": "keep plans and records in records/STUDY/NAME, with their report",
    "export": "write records as CSV, JSON or Parquet",
    "help": "the keys of an action",
}
_ARGUMENT = re.compile(r"^    (?P<names>[a-z_0-9]+(?:, [a-z_0-9]+)*): (?P<text>.*)$")
_COMMENT = re.compile(r"^\s*(?P<key>[a-z_0-9]+):[^#]*(?:#\s*(?P<text>.*))?$")


@dataclass(frozen=True)
class Doc:
    """One key.

    Args:
        meaning: in words.
        valid: values or bounds in words, with the unit; empty where any text is valid.
    """

    meaning: str
    valid: str = ""


def overview(desk: Desk) -> str:
    """Every name with what it is for."""
    entries = [f"  {name:<16s}{purpose(_primary(name, 'run'), desk.conf)}" for name in study.names()]
    others = sorted(path.stem for path in (desk.conf / "command").glob("*.yaml"))
    rest = [f"  {name:<16s}{purpose(f'command/{name}', desk.conf)}" for name in others]
    actions = [f"  {name:<16s}{words}" for name, words in _ACTIONS.items()]
    return "\n".join(
        [
            "afdep-bench NAME [ACTION] key=value...",
            "",
            "Studies:",
            *entries,
            "",
            "Actions of a study:",
            *actions,
            "",
            "Others:",
            *rest,
        ]
    )


def of(name: str, action: str | None, desk: Desk) -> str:
    """What a name does under an action, and its keys: each with its meaning, default and valid values."""
    primary = _primary(name, action)
    lines = [purpose(primary, desk.conf), "", f"afdep-bench {name}{f' {action}' if action else ''} key=value...", ""]
    width = shutil.get_terminal_size((120, 40)).columns
    for key, default, doc in keys(name, primary, desk):
        head, needed = f"  {key}={_shown(default)}", "required" if default == MISSING else ""
        body = "; ".join(part for part in (doc.meaning.rstrip("."), doc.valid, needed) if part)
        lines += textwrap.wrap(f"{head:<32s} {body}", width, subsequent_indent=" " * 33, break_on_hyphens=False)
    return "\n".join(lines)


def keys(name: str, primary: str, desk: Desk) -> Iterator[tuple[str, Any, Doc]]:
    """Every key that a command takes, with its default (`...` for a group whose option is chosen elsewhere)."""
    config, axes = compose(primary, (), desk.conf), axes_of(primary, desk.conf)
    known = dict(of_fields(Launcher, "launcher."))
    for section, kind in _sections(name, primary).items():
        known |= dict(of_fields(kind, f"{section}." if section else ""))
    comments = of_comments(desk.conf / f"{primary}.yaml")
    for axis in axes:
        values = config.get(axis)
        default = values["values"] if isinstance(values, Mapping) else ...
        yield (
            axis,
            default,
            Doc(
                known.get(f"row.{axis}", Doc("values of the sweep")).meaning,
                f"values, or {', '.join(options(desk.conf, axis))}",
            ),
        )
    for group, option in groups_of(primary, desk.conf).items():
        if group not in axes and (names := options(desk.conf, group)):
            yield group, option, Doc("a group of the settings below", ", ".join(names))
    for key, held in flat({name: one for name, one in config.items() if name not in axes}, whole=known):
        doc = known.get(key) or Doc(_commented(key, comments, desk.conf))
        if not isinstance(held, list) or not held or not isinstance(held[0], Mapping):
            yield key, held, doc


def purpose(primary: str, conf: Path) -> str:
    """The comment that leads a configuration, behind the line that Hydra reads."""
    lines = (conf / f"{primary}.yaml").read_text(encoding="utf-8").splitlines()
    return next((line.lstrip("# ") for line in lines[1:2]), "")


def _primary(name: str, action: str | None) -> str:
    if action is None:
        return f"command/{name}"
    return f"study/{name}" if action in ("run", "plan") else f"action/{action}"


def _sections(name: str, primary: str) -> dict[str, type[Any]]:
    """The dataclasses that sections of a study's configuration are read into."""
    if not primary.startswith("study/"):
        return {}
    own = study.settings(name)
    return dict(own.SECTIONS) if own else {"": study.program(name).Settings}


def _commented(key: str, comments: Mapping[str, str], conf: Path) -> str:
    """What a comment says of a key: that of the command's own file, or of the group that the key is of."""
    group, _, last = key.rpartition(".")
    if not group or last in comments:
        return comments.get(last, "")
    for path in sorted((conf / group.split(".")[0]).glob("*.yaml")):
        if said := of_comments(path).get(last):
            return said
    return ""


def arguments(kind: type[Any]) -> dict[str, str]:
    """What a dataclass's docstrings say of its fields, those of its bases included."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        names: list[str] = []
        for line in inspect.cleandoc(one.__dict__.get("__doc__") or "").splitlines():
            if (match := _ARGUMENT.match(line)) is not None:
                names = match["names"].split(", ")
                found.update(dict.fromkeys(names, match["text"]))
            elif names and line.startswith("        "):
                found.update({name: f"{found[name]} {line.strip()}" for name in names})
            else:
                names = []
    return found


def of_fields(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, Doc]]:
    """Every key of a dataclass and of those within it."""
    said, hints = arguments(kind), typing.get_type_hints(kind, include_extras=True)
    for one in dataclasses.fields(kind):
        inner = _without_none(hints[one.name])
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            yield from of_fields(inner, f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}", Doc(said.get(one.name, ""), valid(hints[one.name]))


def of_comments(path: Path) -> dict[str, str]:
    """What the comments of a configuration file say of its keys, from the line of the key or the one above."""
    found, above = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            above = line.lstrip("# ")
        elif (match := _COMMENT.match(line)) is not None:
            found[match["key"]] = match["text"] or above
            above = ""
    return found


def valid(annotation: Any) -> str:
    """The valid values of an annotation in words."""
    inner = _without_none(annotation)
    none = " or none" if inner is not annotation else ""
    if typing.get_origin(inner) is tuple:
        return f"a list: {valid(typing.get_args(inner)[0]) or 'of texts'}{none}"
    if typing.get_origin(inner) is typing.Literal:
        return f"{', '.join(map(str, typing.get_args(inner)))}{none}"
    if typing.get_origin(inner) is not typing.Annotated:
        return {int: "an integer", float: "a number", bool: "true or false", str: "a text"}.get(inner, "") + none
    kind, *more = typing.get_args(inner)
    words = [one.words for one in more if isinstance(one, Text)]
    entries = " entries" if typing.get_origin(kind) is tuple else ""
    words += [f"{one}{entries}" for one in more if isinstance(one, Within)]
    unit = "".join(f", in {one.name}" for one in more if isinstance(one, Unit))
    return f"{' '.join(words) or valid(kind)}{unit}{none}"


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(annotation) if one is not type(None))
    return annotation


def formats() -> str:
    """What is on record: every column of every table that a study writes. It is docs/format.md."""
    tables: dict[type[Row], dict[str, None]] = {}
    for name in study.names():
        for one in vars(study.program(name)).values():
            if isinstance(one, type) and issubclass(one, Row) and hasattr(one, "table"):
                tables.setdefault(one, {})[f"`{name}`"] = None
    parts = ["# Records, column by column", _FORMATS, "## Every row of a trial", _columns(Envelope)]
    for kind, names in sorted(tables.items(), key=lambda item: item[0].table):
        lead = f"{(kind.__doc__ or '').splitlines()[0]} Written by {', '.join(names)}."
        parts += [f"## {kind.table}", lead, _columns(kind, Envelope if issubclass(kind, Envelope) else Row)]
    return "\n\n".join(parts) + "\n"


_FORMATS = """
Records are Parquet files. Read them with `harness.records.frame`, or with any reader of Parquet; archived files of
earlier formats are read with the names of this page. Every file says in its metadata its format, its table, its number
of rows, and the sha256 of its rows. This page is generated from the dataclasses of the studies.
""".strip()


def _columns(kind: type[Row], shared: type[Row] = Row) -> str:
    """The columns of a table beside those that it shares with others."""
    said, common = arguments(kind), {one.name for one in dataclasses.fields(shared)}
    lines = [
        [f"`{one.name}`", str(one.type).replace("item: ", ""), "yes" if one.nullable else "no", said.get(one.name, "")]
        for one in schema(kind)
        if one.name not in common
    ]
    return table(["column", "type", "null", "meaning"], lines)


def _shown(value: Any) -> str:
    if value in (..., MISSING):
        return ""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return "{...}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


def completion(desk: Desk) -> str:
    """A completion file for bash and, through bashcompinit, zsh: names, actions and keys."""
    words = {name: ["help"] for name in sorted(path.stem for path in (desk.conf / "command").glob("*.yaml"))}
    for name in study.names():
        listed = [f"{key}=" for key, _, _ in keys(name, f"study/{name}", desk)]
        words[name] = [*_ACTIONS, *dict.fromkeys(listed)]
    cases = "\n".join(f'        {name}) words="{" ".join(listed)}" ;;' for name, listed in words.items())
    return _COMPLETION.format(names=" ".join(words), cases=cases)


_COMPLETION = """# Completion of afdep-bench for bash; for zsh run `autoload bashcompinit && bashcompinit` first.
# Generated: `make completion`. Use it by `source slurm/afdep-bench.bash`.
_afdep_bench() {{
    local words="{names}"
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    [[ $COMP_CWORD == 1 ]] && words="{names}"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
}}
complete -F _afdep_bench afdep-bench
"""
