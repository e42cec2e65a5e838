"""The study of calibrations."""
