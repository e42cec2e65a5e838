"""Orders that no schedule of the simulator breaks, and a happens-before checker misses all the same."""

from harness.faults.plant import BARRIER, DIRECTED, Plant

PLANTS = (
    Plant(
        "the all-rank barrier is polled without acquiring",
        "memory order",
        "m2n",
        ((BARRIER, "prim::wait_until(", "prim::wait_value("),),
        budget=2,
        finder="races",
    ),
    Plant(
        "arrivals are added without releasing",
        "memory order",
        "afdep",
        (
            (
                DIRECTED,
                "add_release_sys(elastic::peer_word<std::uint64_t>(e, receivers.first + i, word), std::uint64_t{1});",
                "detail::send(elastic::peer_word<std::uint64_t>(e, receivers.first + i, word).address(),"
                " std::uint64_t{1}, prim::detail::land_add<std::uint64_t>);",
            ),
        ),
        budget=2,
        finder="races",
    ),
)
