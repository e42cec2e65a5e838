"""Entry point of `python -m harness`."""

import sys

if not sys.flags.safe_path and __file__ != f"{sys.path[0]}/harness/__main__.py":
    del sys.path[0]  # the current folder: a statistics.py in it would be taken for the library's

from harness.cli import console

if __name__ == "__main__":
    console()
