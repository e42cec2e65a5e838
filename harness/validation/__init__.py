"""Validation: declared cases, the trials they become, their play on a backend, what is checked, and the matrix page."""
