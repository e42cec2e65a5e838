"""The outcome of the tests that need GPUs: what a node says of itself, the record of a run, and its page."""
