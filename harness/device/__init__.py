"""Measuring on GPUs: one process a rank, each cell proved bit for bit, then timed by graph replays."""

from harness.device.settings import Settings

__all__ = ["Settings"]
