"""The arms of a screen: those built here, and the external ones that stand beside them on GPUs."""

from afdep.arms import Arm
from harness.errors import ConfigError
from harness.identity import UNBUILT, Identity

EXTERNAL = ("nccl", "deepep")
"""Libraries that a screen measures without building them: their digest is not ours to give."""


def is_external(name: str) -> bool:
    """Whether this tree does not build that arm."""
    return name in EXTERNAL


def canonical(text: str, backend: str) -> str:
    """The canonical name of an arm.

    Raises:
        ArmError, ControlError: a name that nobody knows.
        ConfigError: an external arm where there are no GPUs.
    """
    if not is_external(text):
        return str(Arm.parse(text))
    if backend != "cuda":
        raise ConfigError(f"arm {text}: expected a screen on GPUs, received backend {backend}.", "Add backend=cuda.")
    return text


def external_identity(name: str) -> Identity:
    """The planned identity of an external arm."""
    return Identity(UNBUILT, name, ())
