"""Where the ranks of a trial meet on their hosts, so that one that fails leaves none of the others behind.

Every meeting of a trial is the same collective: what went wrong on each rank so far. A rank that fails goes to one
meeting more, which is the next one of its peers wherever they are; all leave the trial there, and are in step.
"""

from typing import Any

from afdep.cuda import agreement
from harness.validation.part import PeerFailedError


class Meeting:
    """The meetings of a group.

    Args:
        group: of the trial's ranks, None for the default one.
    """

    def __init__(self, group: Any):
        self._group = group

    def meet(self, problem: str | None = None) -> None:
        """Meet the others; collective.

        Args:
            problem: why this rank goes no further, or None.

        Raises:
            PeerFailedError: another rank goes no further, or is gone.
        """
        try:
            said = agreement.first_problem(self._group, problem)
        except RuntimeError as error:  # of the transport: a process has ended
            raise PeerFailedError(f"a rank is gone: {next(iter(str(error).splitlines()), '')}") from error
        if said is not None and problem is None:
            raise PeerFailedError(said)
