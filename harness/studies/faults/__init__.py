"""Injected faults and late kernels: what the hunt and runs on GPUs must find, and what they must bear."""
