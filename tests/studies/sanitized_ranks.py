"""Ranks without a GPU whose exchanges are exact, in the place of `harness/ranks/device.py`.

The environment variable LANG says what goes wrong: a process inherits it as it is.
"""

import os
import sys
import time
from types import SimpleNamespace

from harness.ranks.group import Group
from harness.study import VoidError

WRONG = os.environ.get("LANG", "")


class MismatchError(Exception):
    pass


def make(session):
    session.opened(device="NVIDIA H200", gpu=session.job.gpus[session.rank])
    return FakeGroup(session)


class FakeGroup(Group):
    def buffer(self, **fields):
        if WRONG == "another library":
            raise VoidError("expected the library n0, received n1")
        return SimpleNamespace(identity={"digest": "n0"}, close=lambda: None)

    def prove(self, buffer, routes, bucket):
        assert len(routes) == self.settings.shape.exchanges
        if WRONG == "hangs" and self.session.batch.trials[0].tree == "bounds":
            print("up", file=sys.stderr, flush=True)
            time.sleep(60)
        if WRONG == "nothing compared":
            os._exit(0)
        if WRONG == "fails":
            raise MismatchError("rows differ")

    def close(self):
        if WRONG == "dies":
            os._exit(3)
