"""What a screen is measured with: frozen, validated once at the edge, and free of Hydra."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKING_TREE = "working"
TRACE = "trace"
"""The routing kind of recorded expert ids."""


@dataclass(frozen=True)
class Row:
    """One row of a table: everything of a cell but its tokens.

    Args:
        layout: canonical spelling, as 2A2F.
        hidden: elements of a row.
        dtype: of the dispatch payload.
        routing: kind of the generated expert ids, or `trace@` and the digest of the file of recorded ones.
        zipf_exponent: of the routing `skew`, else None.
        experts: over all FFN ranks.
    """

    layout: str
    hidden: int
    dtype: str
    routing: str
    zipf_exponent: float | None
    experts: int


@dataclass(frozen=True)
class Exchange:
    """What all exchanges of a screen share.

    Args:
        top_k: routes of a token.
        capacity: most tokens of a source in one exchange.
        bucket: token-count class of every cell; None means each cell's tokens.
        transport_sms: CTAs of the main kernels.
        collect: copy or view.
        mode: graph or eager.
        seed: of routes and payloads.
    """

    top_k: int
    capacity: int
    bucket: int | None
    transport_sms: int
    collect: str
    mode: str
    seed: int

    def shape_of(self, row: Row) -> dict[str, Any]:
        """The shape of a row's exchanges as `afdep.World` and `afdep.cuda.Buffer` take it, but for its layout."""
        return {
            "hidden": row.hidden,
            "num_experts": row.experts,
            "top_k": self.top_k,
            "capacity": self.capacity,
            "dispatch_dtype": row.dtype,
            "transport_sms": self.transport_sms,
        }


@dataclass(frozen=True)
class Floor:
    """What no exchange can beat on a machine, from its description; whatever claims to is void.

    Args:
        one_hop_ns: from a rank's store to a peer's sight of it.
        link_gb_per_s: payload that a rank's link carries one way.
    """

    one_hop_ns: float
    link_gb_per_s: float


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
        windows: who makes them: auto, symmetric or ipc.
        floor: of the machine.
    """

    rendezvous: str
    least_replay_us: int
    replays: int
    warm_up: int
    wait_timeout_s: int
    windows: str
    floor: Floor


@dataclass(frozen=True)
class Backend:
    """Where and how often cells are timed.

    Args:
        name: sim or cuda.
        machine: a machine description: the simulator's, or that of the GPUs measured.
        deterministic: True where timings depend neither on load nor on order.
        pairs: repeats, each of one fresh process per arm.
        num_exchanges: timed exchanges of a cell; on GPUs those of one replay.
        proof_exchanges: exchanges proved bit-exact before a cell is timed.
        ranks_per_gpu: ranks that share a GPU.
        placement: which ranks share a GPU, in words.
        device: how cells are timed on GPUs; None for the simulator.
    """

    name: str
    machine: str
    deterministic: bool
    pairs: int
    num_exchanges: int
    proof_exchanges: int
    ranks_per_gpu: int
    placement: str
    device: DeviceTiming | None = None


@dataclass(frozen=True)
class Launcher:
    """How processes are started on this machine.

    Args:
        name: local.
        jobs: processes at a time, where the backend is deterministic; else 1.
        timeout_s: of one process.
        out: folder of plans, records and reports.
    """

    name: str
    jobs: int
    timeout_s: int
    out: str


@dataclass(frozen=True)
class ArmChoice:
    """An arm and the tree it is built from: a git revision or `working`."""

    name: str
    tree: str


@dataclass(frozen=True)
class ScreenConfig:
    """A validated screen.

    Args:
        name: of the screen.
        published: table id of the published figures beside it, or None.
        declared_aa: True where two arms may have one identity.
        rows: in table order.
        tokens: tokens per Attention rank, in table order.
        arms: baseline first.
        trace: file of recorded expert ids, for the rows of the routing `trace`; else None.
    """

    name: str
    published: str | None
    declared_aa: bool
    rows: tuple[Row, ...]
    tokens: tuple[int, ...]
    arms: tuple[ArmChoice, ...]
    exchange: Exchange
    backend: Backend
    launcher: Launcher
    trace: Path | None = None

    def bucket(self, tokens: int) -> int:
        return self.exchange.bucket or tokens
