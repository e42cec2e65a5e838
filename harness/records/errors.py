"""The errors of the harness begin here: one base, the text in two lines, and the record store's own."""


class HarnessError(Exception):
    """Base of every error of the harness.

    Args:
        problem: the thing, what was expected and what was received, in one line.
        next_step: what the reader can do about it, in one line.
    """

    def __init__(self, problem: str, next_step: str):
        super().__init__(problem, next_step)
        self.problem = problem
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.problem}\n{self.next_step}"


class FieldError(HarnessError, ValueError):
    """A record whose field is missing, of another type, or no possible figure. Nothing is written."""


class WriteError(HarnessError, OSError):
    """A record file that does not read back as it was written. Nothing is published."""


class DamagedError(HarnessError, ValueError):
    """A record file whose content is not what its metadata says."""
