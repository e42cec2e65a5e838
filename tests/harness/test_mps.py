"""The life of an MPS daemon, with a fake control program that is a real process."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from harness.machine import keeper
from harness.machine.mps import private_daemon
from harness.study import VoidError
from tests.harness.watching import wait_until

FAKE = """#!/bin/sh
pid="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = -d ]; then
  [ "$FAKE" = refuses ] && { echo "noise"; echo "MPS is not supported" >&2; exit 1; }
  [ "$FAKE" = hangs ] && exec sleep 60
  setsid sleep 60 &
  echo $! > "$pid"; echo $! >> "$FAKE_PIDS"
  exit 0
fi
read command
echo "$command" >> "$FAKE_PIDS.commands"
[ "$FAKE" = mute ] && exit 1
case "$command" in quit*) [ "$FAKE" = stubborn ] || kill "$(cat "$pid")";; esac
exit 0
"""


class Control:
    """A fake control program on a PATH of its own, and the daemons it started."""

    def __init__(self, folder: Path, behaviour: str):
        program = folder / "nvidia-cuda-mps-control"
        program.write_text(FAKE)
        program.chmod(0o755)
        self._pids = folder / "pids"
        self.environ = {"PATH": f"{folder}:{os.environ['PATH']}", "FAKE": behaviour, "FAKE_PIDS": str(self._pids)}

    def daemons(self) -> list[int]:
        """The process ids of the daemons that still run."""
        started = [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []
        return [pid for pid in started if _runs(pid)]


def _runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


@pytest.fixture
def control(tmp_path, request):
    made = Control(tmp_path, getattr(request, "param", "good"))
    yield made
    for pid in made.daemons():
        os.kill(pid, signal.SIGKILL)


def behaving(*behaviours):
    return pytest.mark.parametrize("control", behaviours, indirect=True)


def test_a_client_is_led_to_the_daemon_and_given_its_share(control):
    with private_daemon(control.environ) as daemon:
        client = daemon.client(25)
        assert client["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
        assert Path(client["CUDA_MPS_PIPE_DIRECTORY"], "nvidia-cuda-mps-control.pid").exists()
        assert Path(client["CUDA_MPS_LOG_DIRECTORY"]).is_dir()


def test_two_daemons_share_no_folder(control):
    with private_daemon(control.environ) as one, private_daemon(control.environ) as other:
        assert len({*one.client(50).values(), *other.client(50).values()}) == 5
        assert len(control.daemons()) == 2


@behaving("good", "stubborn")
def test_a_daemon_ends_with_its_block(control):
    with private_daemon(control.environ) as daemon:
        assert len(control.daemons()) == 1
    assert control.daemons() == []
    assert not daemon.folder.exists()


@behaving("good", "stubborn")
def test_a_daemon_ends_also_with_a_block_that_fails(control):
    with pytest.raises(ZeroDivisionError), private_daemon(control.environ):
        raise ZeroDivisionError
    assert control.daemons() == []


@behaving("refuses")
def test_a_refusal_is_raised_in_the_daemons_own_words(control):
    with pytest.raises(VoidError, match="needs MPS: MPS is not supported"), private_daemon(control.environ):
        pass


@behaving("hangs")
def test_a_daemon_that_does_not_start_in_time_is_given_up(control):
    with pytest.raises(VoidError, match="timed out"), private_daemon(control.environ, limit_s=0.5):
        pass


@behaving("mute")
def test_a_daemon_that_does_not_answer_is_ended(control):
    with pytest.raises(VoidError, match="exit code 1"), private_daemon(control.environ):
        pass
    assert control.daemons() == []


def test_a_machine_without_mps_is_refused_with_the_reason(tmp_path):
    with (
        pytest.raises(VoidError, match="no nvidia-cuda-mps-control on the PATH"),
        private_daemon({"PATH": str(tmp_path)}),
    ):
        pass


HOLDER = """
import os, time
from harness.machine import keeper
from harness.machine.mps import private_daemon
from harness.study import VoidError
with private_daemon(os.environ) as daemon:
    print(daemon.folder, flush=True)
    time.sleep(60)
"""


@behaving("good", "stubborn")
def test_a_daemon_ends_also_where_the_process_that_started_it_is_killed_with_its_group(control):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, **control.environ},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    folder = Path(holder.stdout.readline().strip())
    assert len(control.daemons()) == 1
    os.killpg(holder.pid, signal.SIGKILL)
    holder.communicate()
    wait_until(lambda: not control.daemons() and not folder.exists(), "the end of the daemon and of its folder")


@pytest.mark.parametrize(("last", "alive"), [([], False), (["ended"], True)], ids=["killed", "ended well"])
def test_a_keeper_ends_the_groups_of_a_starter_that_did_not_end_well(last, alive):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as group:
        try:
            lines = [f"harness.machine.keeper:kill_group {number}" for number in (999999999, group.pid)]
            assert keeper.main([*lines, *last]) == (0 if alive else 1)
            if alive:
                assert group.poll() is None
            else:
                assert group.wait(5) == -signal.SIGKILL
        finally:
            group.kill()
