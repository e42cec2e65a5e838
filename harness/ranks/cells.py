"""What a measured exchange is: the row of a table it stands in, what all exchanges share, and how it is timed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from afdep import Layout, Machine
from harness.core.fields import Count, Dtype, LayoutName, Microseconds, Name, Number, Seed, Unit, Within
from harness.errors import ConfigError

HOPS = 2
"""A row goes to an FFN rank, and its reply comes back."""
TRACE = "trace"
"""The routing kind of recorded expert ids; in a plan `trace@` and the digest of their file."""


@dataclass(frozen=True)
class Row:
    """One row of a table: everything of a cell but its tokens.

    Args:
        layout: how many Attention and FFN ranks, as 2A2F.
        hidden: elements of a row.
        dtype: of the dispatch payload.
        routing: kind of the expert ids.
        num_experts: over all FFN ranks.
        zipf_exponent: of the routing `skew`.
    """

    layout: LayoutName
    hidden: Count
    dtype: Dtype
    routing: str
    num_experts: Count
    zipf_exponent: float | None = None

    @property
    def label(self) -> str:
        """As the published record names it: `2A2F, 2,048, random`; FP8 is named, BF16 is not."""
        dtype = "" if self.dtype == "bf16" else f" {self.dtype.upper()}"
        return f"{self.layout}{dtype}, {self.hidden:,}, {self.routing}"


@dataclass(frozen=True)
class Exchange:
    """What all exchanges of a screen share.

    Args:
        top_k: routes of a token.
        capacity: most tokens of a source in one exchange.
        bucket: token-count class of every cell; none: each cell's tokens.
        transport_sms: CTAs of the main kernels.
        collect: whether results are copied out or viewed.
        mode: replays of a graph, or calls of the host.
        seed: of routes and payloads.
    """

    top_k: Count
    capacity: Count
    bucket: Count | None
    transport_sms: Count
    collect: Literal["copy", "view"]
    mode: Literal["graph", "eager"]
    seed: Seed

    def shape_of(self, row: Row) -> dict[str, Any]:
        """The shape of a row's exchanges as `afdep.World` and `afdep.Buffer` take it, but for its layout."""
        return {
            "hidden": row.hidden,
            "num_experts": row.num_experts,
            "top_k": self.top_k,
            "capacity": self.capacity,
            "dispatch_dtype": row.dtype,
            "transport_sms": self.transport_sms,
        }


@dataclass(frozen=True)
class Shape:
    """Exchanges that are compared and not timed.

    Args:
        hidden: elements of a row.
        num_experts: over all FFN ranks.
        top_k: routes of a token.
        tokens: of each source, and its bucket.
        transport_sms: CTAs of the main kernels.
        exchanges: one behind the other without a look in between.
    """

    hidden: Count
    num_experts: Count
    top_k: Count
    tokens: Count
    transport_sms: Count
    exchanges: Count

    @property
    def fields(self) -> dict[str, Any]:
        """The shape as World and Buffer take it."""
        own = {name: held for name, held in vars(self).items() if name not in ("tokens", "exchanges")}
        return {**own, "capacity": self.tokens}


@dataclass(frozen=True)
class DeviceTiming:
    """How cells are timed on GPUs.

    Args:
        rendezvous: device: replays run free behind untimed ones, in which all ranks meet; host: each replay starts
            behind a barrier of all ranks and a synchronisation.
        least_replay_us: a replay holds as many exchanges as take this long, and at least `num_exchanges`.
        replays: timed ones of a cell.
        warm_up: untimed ones ahead of them.
        wait_timeout_s: of one wait on the device.
        windows: who makes them.
    """

    rendezvous: Literal["device", "host"]
    least_replay_us: Microseconds
    replays: Count
    warm_up: Count
    wait_timeout_s: Annotated[int, Within(1), Unit("s")]
    windows: Literal["auto", "symmetric", "ipc"]


@dataclass(frozen=True)
class Floor:
    """What no exchange can beat on a machine, from its description; whatever claims to is void.

    Args:
        one_hop_ns: from a rank's store to a peer's sight of it.
        link_gb_per_s: payload that a rank's link carries one way.
    """

    one_hop_ns: Number
    link_gb_per_s: Number

    @classmethod
    def of(cls, constants: Mapping[str, float]) -> "Floor":
        """From the constants of a machine."""
        return cls(constants["nvlink_latency_ns"], constants["nvlink_gb_per_s"])

    def impossible(self, least_bytes: int, latency_us: float) -> str | None:
        """Why no exchange of a cell takes so little, or None.

        Args:
            least_bytes: that the busiest link carries one way in the lightest of the timed exchanges.
            latency_us: of the cell.
        """
        hops_us = HOPS * self.one_hop_ns / 1e3
        if latency_us < hops_us:
            return f"impossible: {latency_us:.3f} us for a round trip, whose {HOPS} hops take {hops_us:.3f} us"
        rate = least_bytes / (latency_us * 1e3)
        if rate > self.link_gb_per_s:
            return f"impossible: {rate:.0f} GB/s one way over a link of {self.link_gb_per_s:.0f} GB/s"
        return None


@dataclass(frozen=True)
class Backend:
    """Where and how often cells are timed.

    Args:
        name: the simulator or GPUs.
        machine: a machine description: the simulator's, or that of the GPUs measured.
        pairs: repeats, each of one fresh process per arm.
        num_exchanges: timed exchanges of a cell; on GPUs those of one replay.
        proof_exchanges: exchanges proved bit-exact before a cell is timed.
        ranks_per_gpu: ranks that share the fullest GPU.
        device: how cells are timed on GPUs; none for the simulator.
        floor: what no exchange on the machine can beat; by its description where none is given.

    Raises:
        ConfigError: GPUs without a way to time them, or the simulator with one; an odd number of pairs on GPUs.
        MachineError: no such machine.
    """

    name: Literal["sim", "cuda"]
    machine: Name
    pairs: Count
    num_exchanges: Count
    proof_exchanges: Count
    ranks_per_gpu: Count
    device: DeviceTiming | None = None
    floor: Floor | None = None

    def __post_init__(self) -> None:
        if (self.name == "cuda") != (self.device is not None):
            received = f"{self.name} {'with' if self.device else 'without'} backend.device"
            raise ConfigError(f"backend.name: expected one backend, received {received}.", "Write backend=NAME alone.")
        if self.name == "cuda" and self.pairs % 2:
            raise ConfigError(
                f"backend.pairs: expected an even number, received {self.pairs}.",
                "Every second pair runs in the reverse order of the one before; an odd rest leaves a drift in.",
            )
        if self.floor is None:
            object.__setattr__(self, "floor", Floor.of(Machine.load(self.machine).constants()))

    @property
    def placement(self) -> str:
        """Which ranks share a GPU, in words."""
        return "one rank per GPU" if self.ranks_per_gpu == 1 else f"{self.ranks_per_gpu} ranks on the fullest GPU"


@dataclass(frozen=True)
class Cell:
    """One point of a table.

    Args:
        arm: canonical name.
        row: of the table.
        exchange: what its exchanges share.
        backend: how it is timed.
        tokens: of every source.
    """

    arm: str
    row: Row
    exchange: Exchange
    backend: Backend
    tokens: int

    @property
    def bucket(self) -> int:
        return self.exchange.bucket or max(1, self.tokens)

    @property
    def expected_s(self) -> float:
        """What proving and timing it takes; of the simulator on one core, where every token is worked for."""
        if self.backend.name == "cuda":
            return 0.5
        layout, exchanges = Layout.parse(self.row.layout), self.backend.proof_exchanges + self.backend.num_exchanges
        return 0.05 + 150e-6 * exchanges * self.tokens * layout.attention_ranks * layout.ffn_ranks

    @property
    def world(self) -> dict[str, Any]:
        """Keyword arguments of a World that has the cell, but for its arm."""
        shape = {"layout": self.row.layout, **self.exchange.shape_of(self.row)}
        return {**shape, "machine": self.backend.machine} if self.backend.name == "sim" else shape
