"""The completion file is the generated one, and bash completes names, actions and keys with it."""

import subprocess
from pathlib import Path

import pytest

from harness.desk import usage
from harness.desk.desk import real

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "slurm" / "afdep-bench.bash"


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = f"""
    source {FILE}
    compopt() {{ :; }}
    COMP_WORDS=(afdep-bench {" ".join(f"'{word}'" for word in words)})
    COMP_CWORD={len(words)}
    _afdep_bench
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_the_file_is_the_generated_one():
    assert FILE.read_text(encoding="utf-8") == usage.completion(real())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("scr",), ["screen"]),
        (("c",), ["calibrate", "campaign", "claims"]),
        (("screen", "rep"), ["report"]),
        (("screen", "tok"), ["tokens="]),
        (("hunt", "launcher.t"), ["launcher.timeout_s=", "launcher.to="]),
        (("doctor", "h"), ["help"]),
        (("screen", "nothing"), []),
    ],
    ids=lambda one: " ".join(one),
)
def test_bash_completes(words, expected):
    assert sorted(completed(*words)) == expected
