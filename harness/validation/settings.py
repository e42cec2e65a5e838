"""From conf/validation to trials: every value is read strictly, once, here."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from afdep import Arm, Layout, controls, routing
from afdep.dtypes import DISPATCH_DTYPES
from harness.errors import ConfigError, UsageError, valid_names
from harness.sections import MAX_SEED, section
from harness.validation import choosing
from harness.validation.cases import AMOUNTS, CASE_FIELDS, CORRUPTED, COVER, INVALID, MODES, Case, Shape, Trial
from harness.validation.choosing import Choice
from harness.validation.covering import covering
from harness.validation.witness import WITNESSES
from harness.words import (
    as_choice,
    as_count,
    as_distinct,
    as_flag,
    as_kept_name,
    as_list,
    as_name,
    as_word,
    as_word_or_none,
)

BACKENDS = ("sim", "cuda")
EACH, ALL, ANY = "each", "all", "any"
CHOICES: Mapping[str, Callable[[Sequence[Trial]], Choice]] = {ALL: choosing.each, "pairs": choosing.pairwise}
COUNTED = ("hidden", "num_experts", "top_k", "transport_sms", "tokens")
"""Fields of a shape that are plain numbers."""

Data = Mapping[str, Any]


@dataclass(frozen=True)
class ValidationSettings:
    """A validated validation.

    Args:
        trials: in the order they run.
        jobs: processes at a time.
        keep: name of the kept record, or None.
        to: file that the trials are written to instead of being played, or None.
        source: folder with the journal of trials that were played elsewhere, or None.
        gpus: how many GPUs ranks are placed on, or None for all there are.
        choice: what the trials were chosen from.
    """

    trials: tuple[Trial, ...]
    jobs: int
    keep: str | None
    to: str | None
    source: str | None
    gpus: int | None
    choice: Choice


def validation_settings(config: Data) -> ValidationSettings:
    """Read a composed configuration.

    Raises:
        ValueReadError, ConfigError, UsageError, LayoutError, ArmError: a value of no use.
    """
    data = section(config, "validation", ("layouts", "machine", "seed", "choose", "cover", "every", "shape", "cases"))
    layouts = [str(Layout.parse(text)) for text in as_distinct("validation.layouts", data["layouts"])]
    backends = [as_choice("backends", one, BACKENDS) for one in as_distinct("backends", config["backends"])]
    made = _Making(data, layouts, as_name("validation.machine", data["machine"]))
    choose = CHOICES[as_choice("validation.choose", data["choose"], CHOICES)]
    choice = choose(_named([trial for backend in backends for trial in made.trials(backend)], config["cases"]))
    return ValidationSettings(
        trials=choice.trials,
        jobs=as_count("jobs", config["jobs"], minimum=1),
        keep=as_kept_name(config["keep"], "matrix"),
        to=as_word_or_none("to", config["to"], "a file or none"),
        source=as_word_or_none("source", config["source"], "a folder or none"),
        gpus=None if config["gpus"] == ALL else as_count("gpus", config["gpus"], minimum=1),
        choice=choice,
    )


@dataclass(frozen=True)
class _Making:
    """The section `validation`, its layouts and the simulator's machine."""

    data: Data
    layouts: Sequence[str]
    machine: str

    def trials(self, backend: str) -> Iterator[Trial]:
        seed = as_count("validation.seed", self.data["seed"], minimum=0) % MAX_SEED
        shows = "exchanges are exact whatever the shape"
        cover = Case(COVER, shows, "full exchanges", sources=("full",))
        for point in self._covering():
            yield self._trial(backend, cover, point, self._shape(point), seed)
        for name, told in self.data["cases"].items():
            for case, axes in self._cases(as_name("validation.cases", name), told):
                for values in itertools.product(self.layouts, *axes.values()):
                    point = dict(zip(("layout", *axes), values, strict=True))
                    shape = self._shape(told.get("shape", {}) | point)
                    yield self._trial(backend, case, point, shape, seed)

    def _covering(self) -> list[dict[str, Any]]:
        axes = {axis: as_distinct(f"validation.cover.{axis}", values) for axis, values in self.data["cover"].items()}
        return covering({"layout": self.layouts, **axes}) if axes else []

    def _cases(self, name: str, told: Data) -> Iterator[tuple[Case, dict[str, list[object]]]]:
        """The cases of an entry, one for each control where it says so, with the axes of their trials."""
        axes = {axis: as_distinct(axis, told.get(axis, values)) for axis, values in self.data["every"].items()}
        case = _case(name, {key: value for key, value in told.items() if key not in (*self.data["every"], "shape")})
        if case.control is None:
            yield case, axes
        elif case.control != EACH:
            yield _with_control(case, case.control, name), axes
        else:
            words = [*controls.NAMES, *([] if case.one_role else [ALL])]
            for control in words:
                yield _with_control(case, control, f"{name} {control.removeprefix(controls.PREFIX)}"), axes

    def _shape(self, point: Data) -> Shape:
        told = {**self.data["shape"], **point}
        numbers = {name: as_count(name, told[name], minimum=1) for name in COUNTED}
        return Shape(
            **numbers,
            routing=as_choice("routing", told["routing"], routing.KINDS),
            dtype=as_choice("dtype", told["dtype"], DISPATCH_DTYPES),
        )

    def _trial(self, backend: str, case: Case, point: Data, shape: Shape, seed: int) -> Trial:
        return Trial(
            backend=backend,
            case=case,
            layout=point["layout"],
            arm=_arm(str(point["arm"]), case.control),
            shape=shape,
            mode=as_choice("mode", point["mode"], MODES),
            machine=self.machine,
            seed=seed,
        )


def _case(name: str, told: Data) -> Case:
    unknown = sorted(set(told) - set(CASE_FIELDS))
    if unknown or not {"shows", "witness"} <= set(told):
        received = f"the unknown key {unknown[0]}" if unknown else f"only {', '.join(told)}"
        raise ConfigError(
            f"validation.cases.{name}: expected what it shows and its witness, received {received}.",
            valid_names(unknown[0] if unknown else "shows", CASE_FIELDS),
        )
    return replace(Case(name, "", ""), **{key: _field(f"validation.cases.{name}.{key}", told[key]) for key in told})


def _field(name: str, value: object) -> Any:
    """One field of a case, by its key."""
    key = name.rpartition(".")[2]
    if key in ("rotate", "one_role", "host_counts"):
        return as_flag(name, value)
    if key == "sources":
        return tuple(as_choice(name, one, AMOUNTS) for one in as_list(name, value))
    if key == "buckets":
        return tuple(as_count(name, one, minimum=1) for one in as_list(name, value))
    if key in ("exchanges", "delay_ffn_us", "delay_source_us"):
        return as_count(name, value, minimum=1)
    choices = {"witness": WITNESSES, "invalid": INVALID, "corrupted": CORRUPTED}
    return as_choice(name, value, choices[key]) if key in choices else as_word(name, value, "words")


def _with_control(case: Case, control: str, name: str) -> Case:
    """The case of one control; one that ranks may have alone is to pass, and that they have it is what counts."""
    named = replace(case, name=name, control=control)
    return replace(named, witness="role switches") if case.one_role and named.expects == "exact" else named


def _arm(name: str, control: str | None) -> str:
    if control is None:
        return Arm.parse(name).name
    wanted = [one for one in controls.CONTROLS if control in (ALL, one.name)]
    switches = ",".join(f"{one.name}={1 - one.default}" for one in wanted)
    return Arm.parse(f"{name}[{switches}]").name


def _named(trials: Sequence[Trial], words: object) -> tuple[Trial, ...]:
    """The trials of the cases that are asked for: those whose name is, or begins with, one of the words."""
    if words == ANY:
        return tuple(trials)
    names = [as_word("cases", word, "the name of a case") for word in as_distinct("cases", words)]
    known = sorted({trial.case.name for trial in trials})
    for name in names:
        if not any(one.startswith(name) for one in known):
            raise UsageError(f"cases: expected a case of the matrix, received {name!r}.", valid_names(name, known))
    return tuple(trial for trial in trials if trial.case.name.startswith(tuple(names)))
