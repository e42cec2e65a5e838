"""Entry point of `python -m harness`."""

from harness.cli import console

if __name__ == "__main__":
    console()
