"""This machine: its GPUs, which rank runs where, and the service by which ranks share a GPU."""
