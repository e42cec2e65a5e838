"""A screen is validated once, at the edge, against the kernels' own limits."""

import dataclasses
import shutil

import pytest

from afdep.errors import AfdepError
from afdep.machine import Machine
from harness.config.compose import compose, load_options
from harness.core.planning import Wanted
from harness.desk import run
from harness.desk.desk import real
from harness.errors import HarnessError, UsageError
from harness.studies.screen import settings
from harness.studies.screen.program import Trial, cell

DESK = real()
SECTIONS = (("backend", "sim"), ("exchange", "paper"), ("launcher", "local"))


def wanted(*texts: str, desk=DESK) -> Wanted:
    return settings.wanted(compose("study/screen", texts, desk.conf), desk)


def configured(*texts: str, desk=DESK):
    return wanted(*texts, desk=desk).settings


def buckets(*texts: str) -> list[int]:
    config = configured("screen=grid", *texts)
    return [cell(config, Trial(0, 0, 0, 0, tokens)).bucket for tokens in config.tokens]


def test_the_main_screen_is_the_published_main_tables_random_bf16_rows():
    config = configured()
    assert [(row.layout, row.hidden, row.num_experts) for row in config.rows] == [
        ("2A2F", 2048, 128), ("2A2F", 4096, 128), ("3A1F", 2048, 128), ("1A3F", 2048, 96)
    ]  # fmt: skip
    assert config.tokens == (1, 8, 32, 128, 512, 2048)
    assert [arm.name for arm in config.arms] == ["m2n", "afdep@bd4db4da"]
    assert (config.exchange.capacity, config.exchange.top_k, config.exchange.transport_sms) == (2048, 8, 24)


REFUSED = [
    (["screen=grid", "hidden=2049"], "hidden: expected a multiple of"),
    (["screen=grid", "hidden=8200"], "hidden: expected 1..8192"),
    (["screen=grid", "layout=1A3F"], "num_experts: expected a multiple of the 3 FFN ranks"),
    (["screen=grid", "screen.experts=x"], "screen.experts: expected an integer, received 'x'"),
    (["exchange.bucket=4096"], "expected at most 2048 tokens, received bucket = 4096"),
    (["exchange.bucket=4"], "expected at most 4 tokens"),
    (["tokens=[4096]"], "expected at most 2048 tokens"),
    (["tokens=[-1]"], "num_tokens: expected 0 or more, received -1"),
    (["tokens=[]"], "tokens: expected at least one, received none"),
    (["layout=4:4"], "expected a layout as 2A2F"),
    (["arm=[m2n]"], "expected a baseline and at least one arm"),
    (["tokens=[1,8,1]"], "expected each entry once"),
    (["screen=grid", "layout=[2A2F,2F:2A]"], "layout: expected each entry once, received '2A2F' twice"),
    (["arm=[m2n,afdep,afdep]"], "expected each entry once, received afdep of the tree working twice"),
    (["arm=[afdep,'afdep[AFDEP_UNION_NOTIFY=0]']"], "expected each entry once, received afdep of the tree"),
    (["arm=[m2n,m2n]"], "Drop one of them, or declare an A/A: screen.declared_aa=true"),
    (["screen=grid", "screen.name=../../x"], "screen.name: expected up to 64 small letters, digits and dashes"),
    (["screen=grid", f"screen.name={'a' * 260}"], "screen.name: expected up to 64 small letters"),
    (["backend.machine=../x"], "backend.machine: expected up to 64 small letters, digits and dashes"),
    (["backend.machine=b200"], "machine: expected a known name, received 'b200'.\nValid: h100-nvlink"),
    (["backend.name=cuda"], "backend.name: expected one backend, received cuda without backend.device"),
    (["backend=cuda", "backend.name=sim"], "expected one backend, received sim with backend.device"),
    (["backend=cuda", "backend.pairs=3"], "backend.pairs: expected an even number, received 3"),
    (["backend=cuda", "backend.ranks_per_gpu=5"], "expected 5 ranks on the fullest GPU"),
    (["screen.published=nothere"], "published table: expected a known id, received 'nothere'"),
    (["screen=grid", "layout=2A2G"], "2A2G"),
    (["screen=grid", "routing=skwe"], "did you mean skew"),
    (["exchange.collect=keep"], "Valid: copy, view"),
    (["exchange.collect=view"], "exchange.collect: expected copy, received view.*\nWrite exchange.collect=copy"),
    (["trees.baseline=1"], "trees.baseline: expected a git revision, received a text that YAML reads as the int 1"),
]


@pytest.mark.parametrize(("texts", "message"), REFUSED, ids=[" ".join(texts)[:50] for texts, _ in REFUSED])
def test_what_the_kernels_cannot_carry_is_refused_in_two_lines(texts, message):
    with pytest.raises((HarnessError, AfdepError), match=message) as caught:
        configured(*texts)
    assert len(str(caught.value).splitlines()) == 2


EARLY = [
    *("screen.published=nothere", f"screen.name={'a' * 260}", "backend.name=cuda", "backend.machine=b200"),
    *("machine=b200", "exchange.collect=view", "collect=view"),
]


@pytest.mark.parametrize("text", EARLY, ids=[text[:30] for text in EARLY])
def test_what_is_refused_is_refused_before_anything_is_made(bench, text):
    with pytest.raises((HarnessError, AfdepError)):
        bench.screen(text)
    assert bench.lines == []
    assert not bench.out("").exists()


@pytest.mark.parametrize(
    ("lacks", "received"), [("torch", "that needs torch, which is not"), ("gpus", "that needs GPUs: none")]
)
def test_gpus_that_are_not_here_are_asked_for_before_anything_is_made(bench, monkeypatch, lacks, received):
    monkeypatch.setattr(run, "find_spec", lambda name: lacks != "torch")
    monkeypatch.setattr(run.gpus, "found", lambda: "needs GPUs: none")
    with pytest.raises(UsageError, match=f"expected GPUs and torch for cuda, received a machine {received}"):
        run.run("screen", ["screen=grid", "backend=cuda"], bench.desk)
    assert not bench.out("").exists()


@pytest.mark.parametrize("name", ["AFDEP_UNION_NOTIFYX", "AFDEP_"])
def test_an_unknown_control_of_the_environment_is_refused_with_the_valid_ones(bench, name):
    bench.environ[name] = "1"
    with pytest.raises(AfdepError, match=f"control: expected a known name, received '{name}'") as caught:
        bench.screen()
    assert "AFDEP_UNION_NOTIFY" in caught.value.next_step
    assert not bench.out("").exists()


def test_a_source_may_have_no_token_in_a_bucket_of_one():
    assert buckets("tokens=[0,8]") == [1, 8]


def test_a_bucket_above_the_tokens_is_every_cells_bucket():
    assert buckets("exchange.bucket=64", "tokens=[1,8]") == [64, 64]


def test_the_skew_of_a_row_comes_with_its_exponent():
    rows = configured("screen=grid", "routing=[random,skew]").rows
    assert [row.zipf_exponent for row in rows] == [None, load_options("routing", DESK.conf)["skew"]["zipf_exponent"]]


@pytest.mark.parametrize("line", ["surprise: 1", ""])
def test_a_section_has_exactly_its_keys(tmp_path, line):
    conf = shutil.copytree(DESK.conf, tmp_path / "conf")
    path = conf / "exchange" / "paper.yaml"
    path.write_text(path.read_text().replace("top_k: 8", line or "# none"))
    with pytest.raises(HarnessError, match=r"exchange: received .* key"):
        configured(desk=dataclasses.replace(DESK, root=tmp_path))


def test_the_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configured().name = "other"


def test_no_default_stands_in_two_places():
    paths = [DESK.conf / group / f"{name}.yaml" for group, name in SECTIONS]
    lines = [line.split("#")[0].strip() for path in paths for line in path.read_text().splitlines()]
    keys = [line.partition(":")[0] for line in lines if ":" in line and not line.startswith("name:")]
    assert len(keys) == len(set(keys)) > 15


def test_the_upstream_timing_restates_nothing_of_the_other_one():
    cuda, upstream = (configured(f"backend={name}", "screen=grid").backend for name in ("cuda", "upstream"))
    assert (upstream.num_exchanges, upstream.device.rendezvous, upstream.device.least_replay_us) == (20, "host", 0)
    same = dataclasses.replace(upstream.device, rendezvous="device", least_replay_us=cuda.device.least_replay_us)
    assert dataclasses.replace(upstream, device=same) == cuda


@pytest.mark.parametrize(("backend", "machine"), [("cuda", "h200-nvlink"), ("sim", "h100-nvlink")])
def test_the_floor_of_a_plan_is_that_of_its_machine(backend, machine):
    constants = Machine.load(machine).constants()
    floor = configured(f"backend={backend}", "screen=grid").backend.floor
    assert (floor.one_hop_ns, floor.link_gb_per_s) == (constants["nvlink_latency_ns"], constants["nvlink_gb_per_s"])


@pytest.mark.parametrize("arm", ["nccl", "deepep"])
def test_an_external_arm_needs_gpus(arm):
    assert configured("screen=grid", f"arm=[m2n,{arm}]", "backend=cuda").arms[1].name == arm
    with pytest.raises(HarnessError, match="expected a screen on GPUs, received backend sim"):
        configured("screen=grid", f"arm=[m2n,{arm}]")


def test_an_arm_of_two_trees_is_two_arms():
    found = wanted("screen=grid", "arm=[afdep]", "trees.baseline=HEAD~1")
    assert found.trees == ("HEAD~1", "working")
    assert [(arm.name, arm.tree) for arm in found.settings.arms] == [("afdep", 0), ("afdep", 1)]
    assert found.settings.num_trees == 2
