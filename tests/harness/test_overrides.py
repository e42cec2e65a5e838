"""What may stand after the verb; whatever may not is refused by name, with what is valid."""

import pytest

from harness.config.compose import compose
from harness.desk.desk import real
from harness.errors import HarnessError, UsageError
from harness.studies.screen.settings import wanted

DESK = real()


def composed(*texts: str, primary: str = "study/screen"):
    return compose(primary, texts, DESK.conf)


def configured(*texts: str):
    return wanted(composed(*texts), DESK).settings


@pytest.mark.parametrize("flags", [[], ["-m"], ["--multirun"]])
def test_a_list_axis_with_bare_commas_is_refused(flags):
    with pytest.raises(UsageError, match="expected"):
        composed(*flags, "tokens=1,8")


def test_the_refusal_of_bare_commas_shows_the_brackets():
    with pytest.raises(UsageError, match=r"the sweep 1,8.\nWrite tokens=\[1,8\]."):
        composed("tokens=1,8")


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
def test_multirun_is_refused_by_name(flag):
    with pytest.raises(UsageError, match=f"{flag}: expected key=value, received the multirun flag"):
        composed(flag)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("tokns=[1]", "did you mean tokens"),
        ("backnd=sim", "did you mean backend"),
        ("launcher.job=1", "did you mean launcher.jobs"),
        ("screen=gird", "did you mean grid"),
        ("tokens=papre", "did you mean paper"),
        ("backend=gpu", "Valid: cuda, sim, upstream"),
        ("arm=afdp", "did you mean afdep"),
        ("trees=working", "trees: expected a section, received 'working'.\nGive trees baseline, candidate"),
        ("experts=60", "did you mean screen.experts"),
        ("launcher=3", "Valid: local, node"),
        ("launcher.out.x=1", "launcher.out.x: expected a key"),
    ],
)
def test_a_misspelt_key_or_option_lists_the_valid_ones(text, hint):
    with pytest.raises(Exception, match=hint) as caught:
        configured("screen=grid", text)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("text", ["+tokens=[1]", "~tokens", "--help", "tokens", "tokens@x=paper", "++a=1"])
def test_anything_but_key_value_is_refused(text):
    with pytest.raises(UsageError, match="expected key=value"):
        composed(text)


@pytest.mark.parametrize("text", ["hydra.run.dir=out", "hydra/job_logging=none", "hydra=1"])
def test_hydras_own_keys_are_refused(text):
    with pytest.raises(UsageError, match="expected a key of ours, received one of Hydra"):
        composed(text, primary="command/status")


@pytest.mark.parametrize("text", ["tokens=[1]", "layout=2A2F", "backend=sim"])
def test_an_action_without_axes_refuses_them(text):
    with pytest.raises(UsageError, match=r"expected a key of the configuration, received another.\n.*Valid: .*source"):
        composed(text, primary="action/report")


def test_axes_take_an_option_or_values():
    assert configured("tokens=decode").tokens == (1, 8, 32)
    assert configured("tokens=[2,4]").tokens == (2, 4)
    assert configured("tokens=16").tokens == (16,)
    assert [row.layout for row in configured("screen=grid", "layout=[2A:2F,3F:1A]", "screen.experts=96").rows] == [
        "2A2F",
        "1A3F",
    ]


def test_axes_select_rows_of_a_screen_that_lists_them():
    assert [(row.layout, row.hidden) for row in configured("layout=2A2F", "hidden=4096").rows] == [("2A2F", 4096)]


def test_selecting_no_row_lists_the_rows():
    with pytest.raises(HarnessError, match="This screen has 2A2F 2048 bf16 random; "):
        configured("layout=3A1F", "hidden=4096")


@pytest.mark.parametrize("value", ["a=b", "a,b", "a b", "a/b", "'a\"b'", "x" * 300])
def test_no_path_is_made_from_override_text(bench, value):
    before = set(bench.root.rglob("*"))
    with pytest.raises(HarnessError) as caught:
        bench.screen(f"trees.candidate={value}")
    assert len(str(caught.value).splitlines()) == 2
    assert set(bench.root.rglob("*")) - before <= {bench.root / "out", bench.root / "out" / ".alive"}


def test_a_list_that_does_not_read_says_what_to_quote():
    with pytest.raises(UsageError, match=r"arm: expected a list, received .*which does not read as one") as caught:
        composed("arm=[m2n,afdep[AFDEP_UNION_NOTIFY=1]]")
    assert "arm=[m2n,'afdep[AFDEP_UNION_NOTIFY=1]']" in str(caught.value)
    arms = configured("arm=[m2n,'afdep[AFDEP_UNION_NOTIFY=1]']").arms
    assert [arm.name for arm in arms] == ["m2n", "afdep[AFDEP_UNION_NOTIFY=1]"]


@pytest.mark.parametrize("value", ["HEAD~1", "v1.0^{}", "a:b"])
def test_a_text_that_hydra_has_no_word_for_is_taken_as_it_stands(value):
    assert composed(f"trees.candidate={value}")["trees"]["candidate"] == value


def test_a_setting_that_is_named_like_a_group_takes_its_value():
    assert composed("hidden=1024", "layouts=[1A1F]", primary="study/empty-exchange")["hidden"] == 1024
