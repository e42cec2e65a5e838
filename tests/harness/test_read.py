"""Values are read strictly: what YAML would change on the way is refused, wherever it came from."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from afdep import NativeDigest
from afdep.errors import AfdepError
from harness.config import read
from harness.config.compose import compose
from harness.core.fields import Count, Natural, Number, Seed, as_name
from harness.desk import report, select
from harness.desk.desk import real
from harness.errors import ConfigError, HarnessError, ValueReadError
from harness.studies.screen.settings import wanted
from tests.harness.conftest import Bench

DESK = real()
BARE_DIGESTS = ["12345678", "00123456", "12e45678", "1234e567", "0x1234ab", "1_234_56", "inf", "null"]
YAML_WORDS = [
    ("arm", "off"),
    ("arm", "on"),
    ("arm", "no"),
    ("arm", "yes"),
    ("layout", "4:4"),
    ("layout", "1:30"),
    ("arm", "2026-11-29"),
]


@pytest.mark.parametrize("digest", BARE_DIGESTS)
def test_a_bare_digest_is_refused_in_two_lines(measured: Bench, digest):
    with pytest.raises(AfdepError) as caught:
        report.run("screen", [f"digest={digest}"], measured.desk)
    problem, next_step = str(caught.value).splitlines()
    assert "expected n and 8" in problem
    assert "prefix" in next_step


@pytest.mark.parametrize("digest", BARE_DIGESTS)
def test_a_bare_digest_in_a_file_is_refused_as_well(measured: Bench, tmp_path, digest):
    conf = shutil.copytree(DESK.conf, tmp_path / "conf")
    path = conf / "action" / "report.yaml"
    path.write_text(path.read_text().replace("digest: any", f"digest: {digest}"))
    with pytest.raises(AfdepError, match="expected n and 8"):
        select.select("screen", compose("action/report", [], conf), measured.desk)


@pytest.mark.parametrize("digest", [f"n{digits}" for digits in ("12345678", "00123456", "12e45678", "1234e567")])
def test_a_digest_with_its_letter_is_taken_as_it_is(digest):
    assert str(NativeDigest.parse(digest)) == digest


def error_of(root: Path, *texts: str) -> str:
    desk = replace(DESK, root=root)
    with pytest.raises(HarnessError) as caught:
        wanted(compose("study/screen", ["screen=grid", *texts], desk.conf), desk)
    return str(caught.value)


@pytest.mark.parametrize(("axis", "text"), YAML_WORDS)
def test_a_yaml_word_is_refused_alike_in_a_file_and_as_override(tmp_path, axis, text):
    shutil.copytree(DESK.conf, tmp_path / "conf")
    (tmp_path / "conf" / axis / "trap.yaml").write_text(f"values: [{text}]\n")
    in_file = error_of(tmp_path, f"{axis}=trap")
    assert error_of(DESK.root, f"{axis}={text}") == in_file
    assert "YAML reads as the" in in_file


@pytest.mark.parametrize(("text", "seen"), [("off", "bool False"), ("4:4", "int 244"), ("1:30", "int 90")])
def test_the_error_shows_what_yaml_read(text, seen):
    with pytest.raises(ValueReadError, match=f"YAML reads as the {seen}"):
        read.word("arm", text, "an arm")


@pytest.mark.parametrize("value", [True, 1.0, "8", None])
def test_only_a_plain_integer_is_a_count(value):
    with pytest.raises(ValueReadError, match="tokens: expected an integer, received"):
        read.value(Natural, value, "tokens")


BOUNDS = [(Natural, -1, "0 or more"), (Count, 0, "1 or more"), (Seed, 2**31, "0 to "), (Number, -0.5, "0 or more")]


@pytest.mark.parametrize(("kind", "value", "words"), BOUNDS, ids=[words for _, _, words in BOUNDS])
def test_a_number_out_of_bounds_is_refused_with_them(kind, value, words):
    with pytest.raises(ValueReadError, match=f"seed: expected {words}.*, received {value}"):
        read.value(kind, value, "seed")


@pytest.mark.parametrize("value", [True, "1.5", float("nan"), None])
def test_only_a_number_is_a_number(value):
    with pytest.raises(ValueReadError, match="expected a number, received"):
        read.value(Number, value, "limit_s")


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_only_true_and_false_are_flags(value):
    with pytest.raises(ValueReadError, match="expected true or false, received"):
        read.value(bool, value, "replace")


@pytest.mark.parametrize("value", [8, [1, 8, 1], "1,8"])
def test_a_list_is_a_list_without_repeats(value):
    with pytest.raises(ValueReadError, match="tokens: expected"):
        read.value(tuple[Count, ...], value, "tokens")


def test_a_wrong_choice_lists_the_valid_ones():
    with pytest.raises(ValueReadError, match=r"did you mean copy\? Valid: copy, view"):
        read.value(Literal["copy", "view"], "copi", "exchange.collect")


@pytest.mark.parametrize("text", ["", "A", "a/b", "../x", "-a", "a" * 65, "a_b"])
def test_a_name_that_becomes_part_of_file_names_is_plain(text):
    with pytest.raises(ValueReadError, match="up to 64 small letters, digits and dashes") as caught:
        as_name(text)
    assert len(str(caught.value)) < 250


@dataclass(frozen=True)
class Inner:
    many: Count


@dataclass(frozen=True)
class Outer:
    inner: Inner
    shares: Mapping[str, Number]
    more: Inner | None = None


SOUND = {"inner": {"many": 2}, "shares": {"a": 1}}


def test_nested_sections_mappings_and_defaults_are_read():
    assert read.read(Outer, SOUND) == Outer(Inner(2), {"a": 1.0})
    assert read.read(Outer, {**SOUND, "more": None}).more is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**SOUND, "extra": 1}, "Outer: received the unknown key extra.\nValid: inner, shares, more."),
        ({"inner": {"many": 2}}, "Outer: received no key shares."),
        ({**SOUND, "inner": {}}, "inner: received no key many."),
        ({**SOUND, "inner": 3}, "inner: expected a section, received 3."),
        ({**SOUND, "shares": []}, "shares: expected a section, received []."),
    ],
    ids=["too many", "too few", "too few within", "no section", "no mapping"],
)
def test_a_section_has_exactly_its_keys(data, message):
    with pytest.raises(ConfigError) as caught:
        read.read(Outer, data)
    assert str(caught.value).startswith(message)
