"""Ranks without a GPU that say their exchanges are exact, in the place of `harness/studies/sanitize/device.py`.

The environment variable LANG says what goes wrong: a process inherits it as it is.
"""

import os
import sys
import time

from harness.study import Said, VoidError

WRONG = os.environ.get("LANG", "")


def run(batch, group):
    group.turn()
    if WRONG == "hangs" and batch.trials[0].tree == "bounds":
        print("up", file=sys.stderr, flush=True)
        time.sleep(60)
    if WRONG == "another library":
        raise VoidError("expected the library n0, received n1")
    facts = {"digest": "n0", "exchanges": 0 if WRONG in ("nothing compared", "fails") else 2}
    yield Said(0, facts | ({"failed": "MismatchError: rows differ"} if WRONG == "fails" else {}))
    if WRONG == "dies":
        os._exit(3)
