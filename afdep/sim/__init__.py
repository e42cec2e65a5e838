"""The simulator: all ranks of a layout in one process, on numpy arrays and a virtual clock; `afdep` has its names."""
