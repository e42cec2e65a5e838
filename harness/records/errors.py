"""The errors of the record store: one class per cause, the text in two lines."""


class RecordError(Exception):
    """Base of every error of the record store.

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


class FieldError(RecordError, ValueError):
    """A record whose field is missing or of another type than the schema says. Nothing was written."""


class WriteError(RecordError, OSError):
    """A record file that does not read back as it was written."""
