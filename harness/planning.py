"""Makes a plan: exports the trees, asks each what it is, and puts cells, arms and order together."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import arms, order, process, trees
from harness.screen_config import ScreenConfig
from harness.decode import decode
from harness.digests import harness_digest
from harness.errors import TreeError
from harness.identity import Identity
from harness.plan import PLAN_VERSION, Cell, Plan, PlannedArm, Tree
from harness.trees import Slots


def make(config: ScreenConfig, repository: Path, exports: Path, environ: Mapping[str, str]) -> tuple[Plan, Slots]:
    """Plan a screen.

    Args:
        config: the validated screen.
        repository: root of the git repository that revisions are resolved in.
        exports: parent of the directory for the slots.
        environ: where allowed variables are taken from.

    Returns:
        The plan, and the slots with its trees in place.

    Raises:
        TreeError: a tree that cannot be exported, built or loaded.
    """
    resolved = {arm.tree: trees.resolve(repository, arm.tree) for arm in config.arms}
    names = list(dict.fromkeys(resolved.values()))
    owners = [names.index(resolved[arm.tree]) for arm in config.arms]
    slots = trees.export(repository, names, exports)
    try:
        reports = [_probe(config, slots.path(tree), name, owners, tree, environ) for tree, name in enumerate(names)]
        return _plan(config, names, owners, reports, harness_digest(slots.path(0))), slots
    except BaseException:
        slots.remove()
        raise


def _probe(
    config: ScreenConfig, slot: Path, name: str, owners: list[int], tree: int, environ: Mapping[str, str]
) -> dict[str, Any]:
    own = [one for one, owner in zip(config.arms, owners, strict=True) if owner == tree]
    built = [one.name for one in own if not arms.is_external(one.name)]
    row = config.rows[0]
    world = {**config.exchange.shape_of(row), "machine": config.backend.machine}
    request = json.dumps({"backend": config.backend.name, "arms": built, "layout": row.layout, "world": world})
    with tempfile.TemporaryDirectory() as start:
        done = subprocess.run(
            process.command("harness.probe", request),
            cwd=start,
            env=process.environment(slot.resolve(), environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        said, next_step = process.last_words(done.stderr)
        reason = process.ending(done.returncode, None, said).rstrip(".")
        raise TreeError(
            f"tree {name}: expected it to build and load, received {reason}.", next_step or "Run the verb doctor."
        )
    report: dict[str, Any] = json.loads(process.last_line(done.stdout))
    return report


def _plan(
    config: ScreenConfig, names: list[str], owners: list[int], reports: list[dict[str, Any]], harness: str
) -> Plan:
    identities = [
        arms.external_identity(arm.name)
        if arms.is_external(arm.name)
        else decode(Identity, reports[owner]["identities"][arm.name])
        for arm, owner in zip(config.arms, owners, strict=True)
    ]
    return Plan(
        version=PLAN_VERSION,
        screen=config.name,
        published=config.published,
        declared_aa=config.declared_aa,
        backend=config.backend,
        exchange=config.exchange,
        harness_digest=harness,
        trees=tuple(
            Tree(name, report["native_digest"], report["source_digest"])
            for name, report in zip(names, reports, strict=True)
        ),
        arms=tuple(
            PlannedArm(arm.name, owner, identity)
            for arm, owner, identity in zip(config.arms, owners, identities, strict=True)
        ),
        rows=config.rows,
        cells=tuple(Cell(tokens, config.bucket(tokens)) for tokens in config.tokens),
        processes=order.processes(len(config.rows), len(config.arms), len(names), config.backend.pairs),
    )
