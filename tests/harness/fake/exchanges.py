"""Becomes afdep/proof/exchanges.py of a fake tree: a World says itself how its proof ends."""


def prove(world, loads, bucket, seed):
    world.prove_loads(loads, bucket, seed)
