"""A study for tests: each trial does what it is told."""
