"""Bugs and delays planted in copies of the tree: what the hunt and runs on GPUs must find, and what they must bear."""
