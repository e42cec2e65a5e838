"""Measuring on GPUs: one process a rank, each cell proved bit for bit, then timed by replays or call by call."""
