"""Exchanges under compute-sanitizer: each tool on the sound tree, and on one with a fault that it must report."""
