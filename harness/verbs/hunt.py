"""`hunt`: exchanges under adversarial schedules; a seed that fails is made small, told, and recorded."""

import dataclasses
import json
import shlex
from collections.abc import Callable, Sequence

from afdep import World
from afdep.proof.hunt import Finding
from afdep.proof.minimise import minimise
from afdep.proof.scenario import Hunt
from harness import sections
from harness.compose import compose
from harness.hunt import findings
from harness.hunt.seeds import Outcome, run_all
from harness.hunt.settings import HuntSettings, hunt_settings
from harness.records.hunts import HuntRecord, write_hunts
from harness.surroundings import FOUND, OK, Surroundings
from harness.workspace import Workspace, displayed, keep_copy, kept_path


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Hunt every arm. The exit status is 1 where a seed failed."""
    config = compose("hunt", texts, around.repository / "conf")
    settings = hunt_settings(config)
    kept = kept_path("hunts", settings.keep, around.repository)
    folder = Workspace.under(sections.launcher(config).out, around.repository).hunts
    command = shlex.join(["python", "-m", "harness", "hunt", *texts])
    records = [_hunt(hunt, settings, command, around) for hunt in settings.hunts]
    path = write_hunts(folder, records)
    if kept is not None:
        keep_copy(path, kept)
    around.print_line(f"recorded: {displayed(kept or path, around.repository)}")
    return FOUND if any(record.failed_seeds for record in records) else OK


def _hunt(hunt: Hunt, settings: HuntSettings, command: str, around: Surroundings) -> HuntRecord:
    outcome = run_all(hunt, settings.seeds, settings.jobs, _progress(hunt.arm, len(settings.seeds), around))
    found = [_tell(hunt, seed, around) for seed in outcome.failed]
    identity = _identity(hunt)
    return HuntRecord(
        command=command,
        created=around.now().isoformat(timespec="seconds"),
        native_digest=str(identity["digest"]),
        protocol=str(identity["protocol"]),
        arm=hunt.arm,
        hunt=json.dumps({name: value for name, value in dataclasses.asdict(hunt).items() if name != "library"}),
        first_seed=settings.seeds[0],
        last_seed=settings.seeds[-1],
        seeds_run=outcome.seeds_run,
        failed_seeds=tuple(outcome.failed),
        findings=tuple(map(str, found)),
    )


def _progress(arm: str, total: int, around: Surroundings) -> Callable[[Outcome], None]:
    say = around.timed_lines()

    def listen(outcome: Outcome) -> None:
        say(f"[{outcome.seeds_run:{len(str(total))}d}/{total}] {arm}: {len(outcome.failed)} failed")

    return listen


def _tell(hunt: Hunt, seed: int, around: Surroundings) -> Finding:
    """Print a finding as small as it can be made."""
    around.print_line(f"found: {hunt.arm} seed {seed}; making it small")
    small, finding = minimise(hunt, seed)
    for line in findings.lines(small, finding):
        around.print_line(line)
    return finding


def _identity(hunt: Hunt) -> dict[str, object]:
    """What ran, as the loaded library reports it."""
    experts = hunt.experts_per_rank
    world = World(
        "1A1F", hidden=hunt.hidden, num_experts=experts, top_k=1, capacity=1, arm=hunt.arm, library=hunt.library
    )
    return world.identity
