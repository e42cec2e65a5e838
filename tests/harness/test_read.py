"""Values are read strictly: what YAML would change on the way is refused, wherever it came from."""

import shutil
from pathlib import Path

import pytest

from afdep.errors import AfdepError
from harness import words
from harness.compose import CONF_DIR, compose, load_options
from harness.errors import HarnessError, ValueReadError
from harness.selection import select
from harness.validate import screen_config
from harness.verbs import records, report
from tests.harness.conftest import Bench

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
@pytest.mark.parametrize("verb", [report, records], ids=["report", "records"])
def test_a_bare_digest_is_refused_in_two_lines(measured: Bench, verb, digest):
    with pytest.raises(AfdepError) as caught:
        verb.run([f"digest={digest}"], measured.around)
    problem, next_step = str(caught.value).splitlines()
    assert "expected n and 8" in problem
    assert "prefix" in next_step


@pytest.mark.parametrize("digest", BARE_DIGESTS)
def test_a_bare_digest_in_a_file_is_refused_as_well(measured: Bench, tmp_path, digest):
    conf = shutil.copytree(CONF_DIR, tmp_path / "conf")
    path = conf / "selection" / "latest.yaml"
    path.write_text(path.read_text().replace("digest: any", f"digest: {digest}"))
    with pytest.raises(AfdepError, match="expected n and 8"):
        select(compose("report", [], conf), measured.root)


@pytest.mark.parametrize("digest", [f"n{digits}" for digits in ("12345678", "00123456", "12e45678", "1234e567")])
def test_a_digest_with_its_letter_is_taken_as_it_is(digest):
    assert words.as_digest(digest) == digest


def error_of(conf_dir: Path, *texts: str) -> str:
    with pytest.raises(HarnessError) as caught:
        screen_config(compose("screen", ["screen=grid", *texts], conf_dir), load_options("routing", conf_dir))
    return str(caught.value)


@pytest.mark.parametrize(("axis", "text"), YAML_WORDS)
def test_a_yaml_word_is_refused_alike_in_a_file_and_as_override(tmp_path, axis, text):
    shutil.copytree(CONF_DIR, tmp_path / "conf")
    (tmp_path / "conf" / axis / "trap.yaml").write_text(f"values: [{text}]\n")
    in_file = error_of(tmp_path / "conf", f"{axis}=trap")
    assert error_of(CONF_DIR, f"{axis}={text}") == in_file
    assert "YAML reads as the" in in_file


@pytest.mark.parametrize(("text", "seen"), [("off", "bool False"), ("4:4", "int 244"), ("1:30", "int 90")])
def test_the_error_shows_what_yaml_read(text, seen):
    with pytest.raises(ValueReadError, match=f"YAML reads as the {seen}"):
        words.as_word("arm", text, "an arm")


@pytest.mark.parametrize("value", [True, 1.0, "8", None, -1])
def test_only_a_plain_integer_is_a_count(value):
    with pytest.raises(ValueReadError, match="expected an integer of at least 0"):
        words.as_count("tokens", value, minimum=0)


@pytest.mark.parametrize("value", [8, [], [1, 8, 1], "1,8"])
def test_a_list_axis_is_a_list_without_repeats(value):
    with pytest.raises(ValueReadError, match="tokens: expected"):
        words.as_distinct("tokens", value)


def test_a_wrong_choice_lists_the_valid_ones():
    with pytest.raises(ValueReadError, match=r"did you mean copy\? Valid: copy, view"):
        words.as_choice("exchange.collect", "copi", ("copy", "view"))
