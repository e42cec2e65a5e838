"""`claims`: the published claims and what our records say of them. Simulated figures never decide a claim."""

from collections import Counter
from collections.abc import Sequence

from harness import published, tables
from harness.compose import compose
from harness.surroundings import OK, Surroundings
from harness.words import as_choice

ANY = "any"
STATES = ("agrees", "contradicts", "not run", "void")


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Count claims by kind and state; with a kind, list its claims with the least hardware that decides each."""
    config = compose("claims", texts, around.repository / "conf")
    claims = published.claims(around.repository / "records" / "published" / "claims.csv")
    kinds = sorted({claim["kind"] for claim in claims})
    kind = as_choice("kind", config["kind"], (ANY, *kinds))
    counts = Counter((claim["kind"], state_of(claim)) for claim in claims)
    lines = [[one, *(str(counts[one, state]) for state in STATES)] for one in kinds if kind in (ANY, one)]
    around.print_line(tables.markdown(["kind", *STATES], lines, frozenset(range(1, 5))))
    for claim in claims:
        if claim["kind"] == kind:
            around.print_line(f"- {claim['id']} {state_of(claim)} (needs {claim['needs']}): {claim['statement']}")
    return OK


def state_of(claim: dict[str, str]) -> str:
    """The state of a claim: decided by device records alone, of which this tree keeps none."""
    del claim
    return "not run"
