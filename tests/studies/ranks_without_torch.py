"""A rank that meets nobody, in the place of `harness/ranks/device.py`."""

from harness.ranks.group import Group


def make(session):
    session.opened(device="NVIDIA H200", gpu=session.job.gpus[session.rank])
    return Group(session)
