"""Fits of the cost model's constants to published or measured figures."""
