"""Bugs planted in what a rank does once it gives up; only seeds in which one does can show them."""

from harness.faults.plant import COPY_REPLIES, EXCHANGE, FAILURE, REDUCE_EPILOGUE, Plant

_POISONED = "  if (prim::broadcast(ended, 0) != 0) poison_collected(e);\n"

PLANTS = (
    Plant(
        "a rank that was told releases without telling",
        "abort",
        "afdep",
        ((EXCHANGE, "  prim::elect([&] { prim::pass_on_abort(e.guard); });\n  return {0", "  return {0"),),
        budget=100,
        aborts=1.0,
    ),
    Plant(
        "a rank that gives up tells nobody",
        "abort",
        "afdep",
        ((FAILURE, "  prim::pass_on_abort(e.guard);\n}", "}"),),
        budget=20,
        ends_in="AfdepError",
        aborts=1.0,
    ),
    Plant(
        "rows of an exchange that was given up are received",
        "abort",
        "afdep",
        ((EXCHANGE, "  if (prim::broadcast(ended, 1) == 0) return", "  if (prim::broadcast(ended, 1) < 2) return"),),
        budget=100,
        ends_in="AfdepError",
        aborts=1.0,
    ),
    Plant(
        "replies of an exchange that was given up are collected",
        "abort",
        "afdep",
        ((REDUCE_EPILOGUE, _POISONED, ""), (COPY_REPLIES, _POISONED, "")),
        budget=20,
        aborts=1.0,
    ),
)
