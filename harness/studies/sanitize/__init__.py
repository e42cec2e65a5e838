"""Exchanges under compute-sanitizer."""
