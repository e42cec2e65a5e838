"""Measurements of one node in stages, each short enough for a command of its own, and the page of what they leave."""
