"""Every list of conf/campaign is one of commands that plan something, and a campaign bundles all of them."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.desk import run
from harness.desk.desk import real
from harness.errors import UsageError, ValueReadError

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted((ROOT / "conf" / "campaign").glob("*.yaml"))
COMMANDS = [(path.stem, line) for path in LISTS for line in yaml.safe_load(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("name", "line"), COMMANDS, ids=[f"{name} {line[:60]}" for name, line in COMMANDS])
def test_a_line_asks_for_something_that_can_be_planned(name, line):
    study, *words = shlex.split(line)
    wanted, launcher = run.asked(study, [*words, "launcher=node"], real())
    assert (wanted.study, launcher.name) == (study, "node")


def test_a_campaign_runs_its_lines_in_order_into_one_folder(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(run, "run", lambda study, words, desk: ran.append((study, words[-2:])))
    assert run.campaign(["name=h200-four", "to=there"], real()) == 0
    assert ran == [(study, ["launcher=node", "launcher.to=there"]) for study in ("validate", "screen", "screen")]


@pytest.mark.parametrize(
    ("words", "error"), [([], UsageError), (["name=h20"], ValueReadError)], ids=["no name", "unknown"]
)
def test_a_campaign_needs_the_name_of_a_list(words, error):
    with pytest.raises(error, match="name: expected"):
        run.campaign(words, replace(real(), print_line=lambda line: None))
