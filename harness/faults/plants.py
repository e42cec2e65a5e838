"""Protocol bugs planted in a copy of the tree: what the hunt must find."""

from harness.faults import abort_plants, directed_plants, race_plants, sharing_plants, symmetric_plants

PLANTS = (*symmetric_plants.PLANTS, *directed_plants.PLANTS, *sharing_plants.PLANTS, *abort_plants.PLANTS)
ALL = (*PLANTS, *race_plants.PLANTS)
"""With those that the race checker finds instead."""
