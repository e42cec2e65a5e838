"""Hunts: their settings, seeds in parallel processes, and what is said of a finding."""
