"""What one device run measures: one arm of one row, all token counts; a file that the launcher and its ranks share."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

_WORDS = ("layout", "dtype", "routing", "arm", "maker")


@dataclass(frozen=True)
class Settings:
    """One arm of one row on GPUs.

    Args:
        layout: the ranks.
        hidden, dtype, routing, experts, top_k, capacity, transport_sms: of the exchanges.
        arm: its name.
        tokens: of each source, one entry a cell; the bucket is the same number.
        maker: of the windows: auto, symmetric or ipc.
        exchanges: of one graph.
        replays: timed, after `warm_up` untimed ones.
        warm_up: replays before the first timed one.
        proofs: exchanges proved before a cell is timed.
        repeats: how often all cells are measured, each time from fresh processes.
        seed: of payload and routes.
    """

    layout: str = "1A1F"
    hidden: int = 2048
    dtype: str = "bf16"
    routing: str = "random"
    experts: int = 128
    top_k: int = 8
    capacity: int = 2048
    transport_sms: int = 24
    arm: str = "m2n"
    tokens: tuple[int, ...] = (1, 8, 32, 128, 512, 2048)
    maker: str = "auto"
    exchanges: int = 20
    replays: int = 12
    warm_up: int = 3
    proofs: int = 3
    repeats: int = 1
    seed: int = 1

    @classmethod
    def parse(cls, words: list[str]) -> "Settings":
        """Read `name=value` words; `tokens` is a list with commas.

        Raises:
            UsageError: an unknown name, or a value of another kind.
        """
        values: dict[str, Any] = {}
        for word in words:
            name, _, text = word.partition("=")
            values[name] = _value(name, text)
        return cls(**values)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Settings":
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "tokens": tuple(values["tokens"])})


def _value(name: str, text: str) -> Any:
    names = [field.name for field in dataclasses.fields(Settings)]
    if name not in names:
        raise UsageError(f"device: expected one of {', '.join(names)}, received {name!r}.", "Write NAME=VALUE.")
    if name in _WORDS:
        return text
    try:
        return tuple(int(part) for part in text.split(",")) if name == "tokens" else int(text)
    except ValueError as error:
        raise UsageError(f"device {name}: expected a number, received {text!r}.", "Write NAME=VALUE.") from error
