"""The table of plants in docs/hunt.md. `python -m tests.hunt.page` writes it."""

from collections.abc import Sequence
from pathlib import Path

from harness.studies.faults.mutants import Mutant as Plant
from harness.studies.faults.trials import MUTANTS as ALL

BEGIN, END = "<!-- plants:begin -->", "<!-- plants:end -->"
PAGE = Path(__file__).parents[2] / "docs" / "hunt.md"


def table(plants: Sequence[Plant]) -> str:
    """One line for each plant, by class."""
    lines = ["| class | plant | arm | found by | seeds at most | ends in |", "|---|---|---|---|--:|---|"]
    for plant in sorted(plants, key=lambda one: one.kind):
        ending = _ending(plant)
        lines.append(
            f"| {plant.kind} | {plant.name} | `{plant.arm}` | {_found_by(plant)} | {plant.budget} | {ending} |"
        )
    return "\n".join(lines)


def _ending(plant: Plant) -> str:
    if plant.finder == "races":
        return "a data race"
    return "any error" if plant.ends_in == "AfdepError" else f"`{plant.ends_in}`"


def _found_by(plant: Plant) -> str:
    if plant.finder == "races":
        return "race checker"
    if plant.fiber == "thread":
        return "hunt, thread fibers"
    if plant.aborts:
        return "hunt, aborts"
    return "hunt" if plant.tokens is None else f"hunt, capacity {plant.tokens}"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(ALL)}\n{END}{rest.partition(END)[2]}", "utf-8")
