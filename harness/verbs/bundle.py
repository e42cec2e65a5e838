"""`bundle`: the plans of an out folder with all that an offline node needs to run them."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness import bundle, sections
from harness.compose import compose
from harness.errors import BundleError
from harness.surroundings import OK, Surroundings
from harness.trees import exclusive_directory
from harness.words import as_word
from harness.workspace import Workspace, displayed


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Make a bundle of every plan there is."""
    config = compose("bundle", texts, around.repository / "conf")
    launcher = sections.launcher(config)
    workspace = Workspace.under(launcher.out, around.repository)
    target = (around.repository / as_word("to", config["to"], "a folder")).resolve()
    if target.exists() and not (target / bundle.LAUNCHER).is_file():
        raise BundleError(f"to {target.name}: expected no folder or a bundle, received something else.")
    paths = workspace.plan_files()
    building = exclusive_directory(workspace.trees, "bundle")
    try:
        bundle.make(paths, launcher, around.repository, building)
        _put(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    around.print_line(f"{len(paths)} plans: {', '.join(path.stem for path in paths)}")
    around.print_line(f"written: {displayed(target, around.repository)}; on the node: ./{bundle.COMMAND}")
    return OK


def _put(building: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(building, target)
