"""Hunts: exchanges under adversarial schedules, each drawn from a seed and bit-exact, or a finding.

Seeds run in stretches, each in a process of its own, so that one which kills its process is a finding too. An arm gets
no further round of stretches once one of its seeds has failed.
"""

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from afdep import Arm, KernelTime, Layout, World, build, controls
from afdep.proof.hunt import run_seed, small_machine
from afdep.proof.minimise import minimise
from afdep.proof.scenario import Hunt
from harness.core.fields import ArmName, Count, Dtype, LayoutName, Share, Text, Within
from harness.core.identity import Identity
from harness.core.plan import Plan
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.study import Asked, Batch, Block, Ended, Said

FINAL = (OK, FAILED)
_STRETCH, _STRETCHES_A_ROUND = 250, 16
"""Seeds of a process; how many processes an arm gets at a time, enough for the processors of a node."""

_ALL = "all"
Control = Annotated[
    str, Text("a control of afdep, or all", lambda text: text if text == _ALL else controls.parse_value(text, "1")[0])
]
Seed = Annotated[int, Within(0, 2**62)]
"""The last one of a hunt fits a record too, whose integers end at 2^63."""


@dataclass(frozen=True)
class Arms:
    """The arms of a hunt.

    Args:
        values: each is hunted by itself.
    """

    values: Annotated[tuple[ArmName, ...], Within(1)]


@dataclass(frozen=True)
class Shape:
    """What the seeds of a hunt exchange, as `afdep.proof.scenario.Hunt` has it.

    Args:
        layouts: one is drawn a seed.
        hidden: elements of a row.
        dtype: of dispatched rows.
        experts_per_rank: of an FFN rank.
        top_k: routes of a token.
        capacity: most tokens of a source that a Buffer holds.
        most_tokens: of a source in one exchange.
        transport_sms: of the main kernels.
        exchanges: how many run free, one behind the other.
        graphs: share of the seeds that replay their exchanges as a graph.
        buffers: share of the other seeds that have two Buffers a rank, whose exchanges are in flight together.
        aborts: share of the seeds with one Buffer a rank in which a rank gives up.
        controls: that a seed may set beside those of the arm.
        fiber: of the simulator: one for each warp, or for each thread, which is slower and sees a missing warp barrier.
    """

    layouts: Annotated[tuple[LayoutName, ...], Within(1)]
    hidden: Count
    dtype: Dtype
    experts_per_rank: Count
    top_k: Count
    capacity: Count
    most_tokens: Count
    transport_sms: Count
    exchanges: Count
    graphs: Share
    buffers: Share
    aborts: Share
    controls: tuple[Control, ...]
    fiber: Literal["warp", "thread"]


@dataclass(frozen=True)
class Settings:
    """A hunt.

    Args:
        arm: whose kernels run.
        budget: seeds of each arm, from the first one.
        first_seed: the first one.
        seeds: to run instead, or none.
        hunt: what they exchange.
    """

    arm: Arms
    budget: Annotated[int, Within(1, 2**62)]
    first_seed: Seed
    seeds: Annotated[tuple[Seed, ...], Within(1)] | None
    hunt: Shape


@dataclass(frozen=True)
class Trial:
    """Some seeds of an arm, one after the other."""

    arm: str
    first_seed: int
    num_seeds: int = 1

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """What came of some seeds of an arm, up to the first that failed.

    Args:
        arm: that was hunted.
        protocol: its kernels.
        hunt: what the seeds exchange, as JSON.
        first_seed, last_seed: of the seeds that were asked for.
        seeds_run: how many of them ran.
        failed_seeds: those that failed, in order.
        findings: how each of them failed; in lines behind it how to replay it, made small, which waits cannot end, and
            when its kernels ran.
    """

    table: ClassVar[str] = "hunts"
    arm: str = ""
    protocol: str = ""
    hunt: str = ""
    first_seed: int = 0
    last_seed: int = 0
    seeds_run: int = 0
    failed_seeds: tuple[int, ...] = ()
    findings: tuple[str, ...] = ()


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """The next stretches of each arm whose seeds have all been clean so far, each claimed by itself."""
    begun = {(row.arm, row.first_seed) for row in done}
    ended = {arm for arm, _ in begun - {(row.arm, row.first_seed) for row in done if row.status == OK}}
    return [
        Block((Batch((one,)),))
        for arm in settings.arm.values
        if arm not in ended
        for one in _next(settings, arm, begun)
    ]


def _next(settings: Settings, arm: str, begun: Collection[tuple[str, int]]) -> Iterator[Trial]:
    """The next stretches of an arm, in order."""
    starts = range(settings.first_seed, settings.first_seed + settings.budget, _STRETCH)
    pieces = ((seed, min(_STRETCH, starts.stop - seed)) for seed in starts)
    chosen = pieces if settings.seeds is None else ((seed, 1) for seed in settings.seeds)
    return islice((Trial(arm, *one) for one in chosen if (arm, one[0]) not in begun), _STRETCHES_A_ROUND)


def arms(settings: Settings) -> Sequence[Asked]:
    """Whose identities the plan holds; asking for them builds the library, with fibers of the kind that is hunted."""
    return [Asked(arm, 0, "sim", _world(settings.hunt)) for arm in settings.arm.values]


def _world(shape: Shape) -> dict[str, Any]:
    """A World of the shape, with as few experts as any seed has."""
    layout = min(map(Layout.parse, shape.layouts), key=lambda one: one.ffn_ranks)
    return {
        "layout": str(layout),
        "num_experts": shape.experts_per_rank * layout.ffn_ranks,
        "dispatch_dtype": shape.dtype,
        **{name: getattr(shape, name) for name in ("hidden", "top_k", "capacity", "transport_sms", "fiber")},
    }


def machine(settings: Settings) -> str:
    """The machine that seeds are simulated on, but for its size."""
    return small_machine().name.partition(",")[0]


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run the seeds of each stretch up to the first that fails."""
    shape, library = group.settings.hunt, group.library or build.build(group.settings.hunt.fiber)
    group.session.opened(**{name: getattr(build.sidecar(library), name) for name in ("code_digest", "compiler")})
    for index, trial in enumerate(batch.trials):
        group.check(trial.arm, Identity.from_report(World(**_world(shape), arm=trial.arm, library=library).identity))
        yield Said(index, _finding(hunt_of(shape, trial.arm, library), trial, group))


def hunt_of(shape: Shape, arm: str, library: Path | None = None) -> Hunt:
    """The hunt of an arm."""
    chosen = tuple(name for name in controls.NAMES if {name, _ALL} & set(shape.controls))
    return Hunt(arm, **{**vars(shape), "controls": chosen}, library=library)


def _finding(hunt: Hunt, trial: Trial, group: Any) -> dict[str, str]:
    """What is said of the first seed that fails, made small; nothing where none does."""
    for seed in trial.seeds:
        group.session.opened(seed=seed)  # the last word of this process, where the seed ends it
        if run_seed(hunt, seed) is not None:
            small, finding = minimise(hunt, seed)
            waits = (f"blocked: {wait}" for wait in getattr(finding.error, "waits", ()))
            lines = [f"replay: {replay_command(small, seed)}", *waits, *trace_lines(finding.kernels)]
            return {"failed": str(finding), "details": "\n".join(lines)}
    return {}


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row: a seed that ended its process has failed; where none had begun, the seeds are void."""
    said, seed = ended.said.get(0, {}), ended.opened.get(0, {}).get("seed", -1)
    failed = ended.status == FAILED and seed in trial.seeds
    reason = ended.reason if said or not failed else f"seed {seed} ended its process: {ended.reason}"
    replay = f"replay: {replay_command(hunt_of(plan.settings.hunt, trial.arm), seed)}" if failed else ""
    return [
        Record(
            status=FAILED if failed else OK if ended.status == OK else VOID,
            reason=reason,
            machine=machine(plan.settings),
            arm=trial.arm,
            protocol=Arm.parse(trial.arm).protocol,
            hunt=json.dumps({"arm": trial.arm, **vars(plan.settings.hunt)}),
            first_seed=trial.first_seed,
            last_seed=trial.seeds[-1],
            seeds_run=seed - trial.first_seed + 1 if failed else trial.num_seeds if ended.status == OK else 0,
            failed_seeds=(seed,) if failed else (),
            findings=(f"{reason}\n{said.get('details', replay)}",) if failed else (),
        )
    ]


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    return f"{trial.arm} seeds {trial.first_seed}..{trial.seeds[-1]}"


def replay_command(hunt: Hunt, seed: int) -> str:
    """The command that runs one seed of a hunt; fields as `conf/hunt/small.yaml` has them are left out."""
    usual = asdict(Hunt.small(hunt.arm, library=hunt.library))
    changed = [f"hunt.{name}={json.dumps(value)}" for name, value in asdict(hunt).items() if value != usual[name]]
    return shlex.join(["afdep-bench", "hunt", f"arm={json.dumps([hunt.arm])}", f"seeds=[{seed}]", *changed])


def trace_lines(kernels: Sequence[KernelTime]) -> list[str]:
    """One line for each Buffer and exchange: its kernels in simulated us, in order of completion."""
    place = attrgetter("buffers", "exchange", "rank")
    return [
        f"exchange {exchange} rank {rank}{' second Buffer' if buffers else ''}, us: "
        + ", ".join(f"{one.name} {one.start_us:.1f}..{one.end_us:.1f}" for one in own)
        for (buffers, exchange, rank), own in groupby(sorted(kernels, key=place), place)
    ]
