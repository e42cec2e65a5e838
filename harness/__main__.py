"""Entry point of `python -m harness`."""

import sys

from harness.cli import main
from harness.leaving import leave

if __name__ == "__main__":
    leave(main(sys.argv[1:]))
