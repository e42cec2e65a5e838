"""The tests that need GPUs, run from a slot."""
