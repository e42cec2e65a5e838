"""State of a rank that each of its Buffers must have to itself: only exchanges of two in flight together show it."""

from harness.faults.plant import BUFFERS, Plant

SHIPPED = "  fill_exchange(r.exchange, shape_, shapes_, rank, take);\n"


def shared(member: str) -> str:
    """What the first Buffer of a rank keeps there is what the others use as well."""
    return f"""{SHIPPED}  static int* kept[elastic::kMaxRanks];
  if (number_ == 0) kept[rank] = r.exchange.{member};
  r.exchange.{member} = kept[rank];
"""


PLANTS = (
    Plant(
        "the Buffers of a rank allocate rows from one cursor",
        "sharing",
        "afdep",
        ((BUFFERS, SHIPPED, shared("expert_cursor")),),
        budget=60,
        ends_in="AfdepError",
    ),
    Plant(
        "the Buffers of a rank keep one way back for their rows",
        "sharing",
        "m2n",
        ((BUFFERS, SHIPPED, shared("source_metadata")),),
        budget=60,
        ends_in="AfdepError",
    ),
)
