"""docs/format.md says every column of every table, and is what the dataclasses give."""

import re

from harness import study
from harness.desk import usage
from harness.desk.desk import real
from harness.ranks.exchanges import RoundTrip
from harness.records import Envelope, Row, schema

PAGE = real().root / "docs" / "format.md"
AGAIN = "write it again: python -c 'from harness.desk import usage; print(usage.formats(), end=\"\")' > docs/format.md"


def columns(page: str, heading: str) -> dict[str, list[str]]:
    """By column its type, whether it may be null, and its meaning."""
    part = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [re.split(r" *\| *", line.strip("| ")) for line in part.splitlines() if line.startswith("| `")]
    return {name.strip("`"): more for name, *more in lines}


def test_the_committed_page_is_the_generated_one():
    assert PAGE.read_text("utf-8") == usage.formats(), AGAIN


def test_every_column_of_every_study_has_a_meaning():
    for name in study.names():
        kind = study.program(name).Record
        said = usage.arguments(kind)
        assert [one for one in schema(kind).names if not said.get(one)] == [], f"docstring of {kind.__name__} in {name}"


def test_a_table_has_its_own_columns_and_shares_those_of_every_row():
    page = usage.formats()
    own, shared = columns(page, "round_trips"), columns(page, "Every row of a trial")
    assert {*own, *shared} == set(schema(RoundTrip).names)
    assert set(shared) == set(schema(Envelope).names)
    assert own["latency_us"][:2] == ["double", "yes"]
    assert own["num_experts"][:2] == ["int64", "no"]
    assert shared["reason"] == ["string", "yes", "why it is not ok, else null."]


def test_a_record_without_a_docstring_is_noticed():
    class Silent(Row):
        """Nothing."""

    assert usage.arguments(Silent) == {}
