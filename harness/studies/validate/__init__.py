"""Validation: declared cases on every layout, each element of each rank compared with the reference."""
