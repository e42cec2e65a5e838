"""The table of plants in docs/hunt.md. `python -m tests.hunt.page` writes it."""

from collections.abc import Iterable
from pathlib import Path

from harness.report import markdown
from harness.studies.faults.mutants import Mutant as Plant
from harness.studies.faults.trials import MUTANTS

BEGIN, END = "<!-- plants:begin -->", "<!-- plants:end -->"
PAGE = Path(__file__).parents[2] / "docs" / "hunt.md"


def table(plants: Iterable[Plant]) -> str:
    """One line for each plant, by class."""
    lines = [
        [one.kind, one.name, f"`{one.arm}`", _found_by(one), one.budget, _ending(one)]
        for one in sorted(plants, key=lambda one: one.kind)
    ]
    return markdown.table(["class", "plant", "arm", "found by", "seeds at most", "ends in"], lines, (4,))


def _ending(plant: Plant) -> str:
    if plant.finder == "race checker":
        return "a data race"
    return "any error" if plant.ends_in == "AfdepError" else f"`{plant.ends_in}`"


def _found_by(plant: Plant) -> str:
    more = {"fiber": "{} fibers", "aborts": "aborts", "capacity": "capacity {}"}
    return ", ".join([plant.finder, *(more[name].format(value) for name, value in plant.hunt if name in more)])


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(MUTANTS.values())}\n{END}{rest.partition(END)[2]}", "utf-8")
