"""What an arm is, as the loaded library reports it: native digest, protocol and switches."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNBUILT = "external"
"""What stands in a plan for the digest of an arm that no tree builds; its records name the library and its version."""


@dataclass(frozen=True)
class Identity:
    """One arm's identity; two arms of one identity measure one thing twice.

    Args:
        digest: native digest of the sources the library was built from.
        protocol: the kernels it runs.
        switches: controls that it runs with, by name.
    """

    digest: str
    protocol: str
    switches: tuple[tuple[str, int], ...]

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> "Identity":
        """Read what a library reports; its switches are a mapping or pairs of those that differ from their default."""
        pairs = dict(report["switches"])
        switches = tuple(sorted((str(name), int(value)) for name, value in pairs.items()))
        return cls(str(report["digest"]), str(report["protocol"]), switches)

    def switches_text(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.switches)

    def difference(self, loaded: "Identity") -> str | None:
        """The first field in which the loaded identity differs from this planned one; None if none does."""
        fields = ("digest", "protocol", "switches")
        for field in fields[self.digest == UNBUILT :]:
            expected, received = getattr(self, field), getattr(loaded, field)
            if expected != received:
                return (
                    f"{field}: the plan expects {expected or 'none'}, the loaded library reports {received or 'none'}"
                )
        return None


def native_digest_of(library: Any, target: str) -> str:
    """What a measured tree's `afdep` says of its native sources; trees from before targets had digests have one."""
    digest = library.native_digest
    return str(digest(target) if "target" in inspect.signature(digest).parameters else digest())
