"""A screen is validated once, at the edge, against the kernels' own limits."""

import dataclasses
import shutil

import pytest

from afdep.errors import AfdepError
from afdep.machine import Machine
from harness.compose import CONF_DIR, compose, load_options
from harness.errors import HarnessError
from harness.validate import screen_config

SECTIONS = (("backend", "sim"), ("exchange", "paper"), ("launcher", "local"), ("selection", "latest"))


def configured(*texts: str, conf_dir=CONF_DIR):
    return screen_config(compose("screen", texts, conf_dir), load_options("routing", conf_dir))


def test_the_main_screen_is_the_published_main_tables_random_bf16_rows():
    config = configured()
    assert [(row.layout, row.hidden, row.experts) for row in config.rows] == [
        ("2A2F", 2048, 128), ("2A2F", 4096, 128), ("3A1F", 2048, 128), ("1A3F", 2048, 96)
    ]  # fmt: skip
    assert config.tokens == (1, 8, 32, 128, 512, 2048)
    assert [arm.name for arm in config.arms] == ["m2n", "afdep@bd4db4da"]
    assert (config.exchange.capacity, config.exchange.top_k, config.exchange.transport_sms) == (2048, 8, 24)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["screen=grid", "hidden=2049"], "hidden: expected a multiple of"),
        (["screen=grid", "hidden=8200"], "hidden: expected 1..8192"),
        (["screen=grid", "layout=1A3F"], "num_experts: expected a multiple of the 3 FFN ranks"),
        (["exchange.bucket=4096"], "expected at most 2048 tokens, received bucket = 4096"),
        (["exchange.bucket=4"], "expected at most 4 tokens"),
        (["tokens=[4096]"], "expected at most 2048 tokens"),
        (["layout=4:4"], "expected a layout as 2A2F"),
        (["arm=[m2n]"], "expected a baseline and at least one arm"),
        (["tokens=[1,8,1]"], "expected each entry once"),
        (["screen=grid", "layout=[2A2F,2F:2A]"], "expected each entry once, received 2A2F and 2F:2A, both 2A2F"),
        (["arm=[m2n,afdep,afdep]"], "expected each entry once, received afdep and afdep, both afdep of"),
        (["arm=[m2n,m2n]"], "Drop one of them, or declare an A/A: screen.declared_aa=true"),
        (["screen=grid", "screen.name=../../x"], "screen.name: expected small letters, digits and dashes"),
        (["backend.machine=../x"], "backend.machine: expected small letters, digits and dashes"),
        (["screen=grid", "layout=2A2G"], "2A2G"),
        (["screen=grid", "routing=skwe"], "did you mean skew"),
        (["exchange.collect=keep"], "Valid: copy, view"),
    ],
)
def test_what_the_kernels_cannot_carry_is_refused_in_two_lines(texts, message):
    with pytest.raises((HarnessError, AfdepError), match=message) as caught:
        configured(*texts)
    assert len(str(caught.value).splitlines()) == 2


def test_a_bucket_above_the_tokens_is_every_cells_bucket():
    config = configured("exchange.bucket=64", "tokens=[1,8]")
    assert [config.bucket(tokens) for tokens in config.tokens] == [64, 64]


def test_the_skew_of_a_row_comes_with_its_exponent():
    rows = configured("screen=grid", "routing=[random,skew]").rows
    assert [row.zipf_exponent for row in rows] == [None, load_options("routing")["skew"]["zipf_exponent"]]


def test_timings_that_depend_on_order_need_both_orders(tmp_path):
    conf = shutil.copytree(CONF_DIR, tmp_path / "conf")
    path = conf / "backend" / "sim.yaml"
    path.write_text(path.read_text().replace("deterministic: true", "deterministic: false"))
    with pytest.raises(HarnessError, match="expected an even number, received 1"):
        configured(conf_dir=conf)
    assert configured("backend.pairs=4", conf_dir=conf).backend.pairs == 4


@pytest.mark.parametrize("line", ["surprise: 1", ""])
def test_a_section_has_exactly_its_keys(tmp_path, line):
    conf = shutil.copytree(CONF_DIR, tmp_path / "conf")
    path = conf / "launcher" / "local.yaml"
    path.write_text(path.read_text().replace("timeout_s: 1800", line or "# none").replace("# of one process", ""))
    with pytest.raises(HarnessError, match=r"launcher: received .* key"):
        configured(conf_dir=conf)


def test_the_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configured().name = "other"


def test_no_default_stands_in_two_places():
    options = [CONF_DIR / group / f"{name}.yaml" for group, name in SECTIONS]
    lines = [line.split("#")[0].strip() for path in options for line in path.read_text().splitlines()]
    keys = [line.partition(":")[0] for line in lines if ":" in line and not line.startswith("name:")]
    assert len(keys) == len(set(keys)) > 15


def test_the_upstream_timing_restates_nothing_of_the_other_one():
    cuda, upstream = (configured(f"backend={name}", "screen=grid").backend for name in ("cuda", "upstream"))
    assert (upstream.num_exchanges, upstream.device.rendezvous, upstream.device.least_replay_us) == (20, "host", 0)
    same = dataclasses.replace(upstream.device, rendezvous="device", least_replay_us=cuda.device.least_replay_us)
    assert dataclasses.replace(upstream, device=same) == cuda


def test_the_floor_of_a_plan_for_gpus_is_that_of_its_machine():
    constants = Machine.load("h200-nvlink").constants()
    floor = configured("backend=cuda", "screen=grid").backend.device.floor
    assert (floor.one_hop_ns, floor.link_gb_per_s) == (constants["nvlink_latency_ns"], constants["nvlink_gb_per_s"])


@pytest.mark.parametrize("arm", ["nccl", "deepep"])
def test_an_external_arm_needs_gpus(arm):
    assert configured("screen=grid", f"arm=[m2n,{arm}]", "backend=cuda").arms[1].name == arm
    with pytest.raises(HarnessError, match="expected a screen on GPUs, received backend sim"):
        configured("screen=grid", f"arm=[m2n,{arm}]")
