"""What a validation declares: cases, and the trials that they become, as plain data that any backend can play."""

from dataclasses import dataclass, fields
from typing import Any

from afdep.controls import CONTROLS
from afdep.layout import Layout
from afdep.shapes import ExchangeShape

MODES = ("eager", "graph")
AMOUNTS = ("full", "one", "none", "skipped", "idle")
"""What a source sends in an exchange: all its tokens, one, none, all without a route, or none until the last."""

INVALID = ("beyond", "below", "wide", "duplicate")
"""Routes that no kernel may take: E, -2, an id whose low 32 bits are a valid one, an expert twice in a token."""

CORRUPTED = ("collected", "received")
"""Where a trial turns one bit itself, to see whether the comparison finds it."""

COVER = "cover"
"""The case of the trials that cover pairs of axis values."""


_MAY_DIFFER = tuple(control.name for control in CONTROLS if control.scope == "launch")


@dataclass(frozen=True)
class Shape:
    """What the exchanges of a trial look like.

    Args:
        hidden: elements of a row.
        num_experts: over all FFN ranks.
        top_k: routes of a token.
        transport_sms: CTAs of the main kernels.
        tokens: of a source that sends all it has, where the bucket holds as many.
        routing: kind of the expert ids.
        dtype: of the dispatch payload.
    """

    hidden: int
    num_experts: int
    top_k: int
    transport_sms: int
    tokens: int
    routing: str
    dtype: str


@dataclass(frozen=True)
class Case:
    """One behaviour.

    Args:
        name: as in the matrix.
        shows: what its trials show, in words.
        witness: what must have happened in a trial, and is counted; one of `harness.validation.witness.WITNESSES`.
        exchanges: of a trial, each checked by itself; eager ones that may run free do so once more, unchecked between.
        sources: an amount for each source, repeated.
        rotate: whether the amounts move on by one source an exchange.
        buckets: classes of tokens, in turn; none means the tokens of the shape.
        delay_ffn_us, delay_source_us: a pause of the last FFN rank ahead of its replies, of the first source ahead of
            its dispatch.
        invalid: the route that is wrong in the last exchange, or None.
        corrupted: where a bit is turned after the last exchange, or None.
        control: what a control does: its name, `all` of them, or None.
        one_role: whether FFN ranks alone have the control.
        host_counts: whether FFN ranks read the counts of an exchange once the next is under way.
    """

    name: str
    shows: str
    witness: str
    exchanges: int = 4
    sources: tuple[str, ...] = ("full",)
    rotate: bool = False
    buckets: tuple[int, ...] = ()
    delay_ffn_us: int = 0
    delay_source_us: int = 0
    invalid: str | None = None
    corrupted: str | None = None
    control: str | None = None
    one_role: bool = False
    host_counts: bool = False

    @property
    def expects(self) -> str:
        """What a trial must end in, in words."""
        if self.corrupted:
            return "MismatchError"
        if self.one_role and self.control not in _MAY_DIFFER:
            return "AgreementError on every rank"
        if self.invalid:
            return "DeviceAssertion on every rank"
        return "exact"

    @property
    def runs_free(self) -> bool:
        """Whether the exchanges also run one behind the other without a look in between."""
        return self.expects == "exact" and not self.delay_ffn_us + self.delay_source_us and not self.one_role


CASE_FIELDS = tuple(one.name for one in fields(Case) if one.name != "name")


@dataclass(frozen=True)
class Trial:
    """One case at one point: what is run, and what a record says of it.

    Args:
        backend: sim or cuda.
        case: the behaviour.
        layout: canonical spelling.
        arm: canonical name.
        shape: of the exchanges.
        mode: eager calls, or one graph a bucket whose inputs change in place.
        machine: of the simulator.
        seed: of routes and payload.
    """

    backend: str
    case: Case
    layout: str
    arm: str
    shape: Shape
    mode: str
    machine: str
    seed: int

    @property
    def label(self) -> str:
        shape = self.shape
        point = f"{self.layout} {shape.hidden} {shape.dtype} {shape.routing} T={shape.tokens} {self.arm} {self.mode}"
        return f"{self.case.name}: {point}"

    @property
    def capacity(self) -> int:
        return max((*self.case.buckets, self.shape.tokens))

    def bucket(self, exchange: int) -> int:
        """The class of tokens of an exchange."""
        buckets = self.case.buckets or (self.shape.tokens,)
        return buckets[exchange % len(buckets)]

    def amount(self, source: int, exchange: int) -> str:
        """What a source sends in an exchange, as one of AMOUNTS."""
        amounts = self.case.sources
        return amounts[(source + exchange * self.case.rotate) % len(amounts)]

    @property
    def exchange_shape(self) -> ExchangeShape:
        """The shape of its exchanges, of which no ranks need be made."""
        told = {key: value for key, value in self.world_fields().items() if key not in ("arm", "layout")}
        return ExchangeShape(Layout.parse(self.layout), **told)

    def world_fields(self) -> dict[str, Any]:
        """The exchange shape as `afdep.World` and `afdep.cuda.Buffer` take it."""
        shape = self.shape
        return {
            "layout": self.layout,
            "hidden": shape.hidden,
            "num_experts": shape.num_experts,
            "top_k": shape.top_k,
            "capacity": self.capacity,
            "arm": self.arm,
            "dispatch_dtype": shape.dtype,
            "transport_sms": shape.transport_sms,
        }
