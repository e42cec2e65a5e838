"""Trials on GPUs: where their ranks come from is not there yet, so each is void and says what it needs."""

from typing import NoReturn

from afdep.layout import Layout
from harness.validation.cases import Trial
from harness.validation.endpoint import NotPlayableError


def open_end(trial: Trial) -> NoReturn:
    """Refuse: trials are played by rank processes, which a plan of a validation does not start.

    Raises:
        NotPlayableError: always.
    """
    ranks = Layout.parse(trial.layout).num_ranks
    raise NotPlayableError(f"needs GPUs: a process for each of {ranks} ranks that plays its part of a trial")
