"""`python -m pytest_rageval`, the command `rageval` where the script is not on the path."""

import sys

from pytest_rageval.cli import main

if __name__ == "__main__":
    sys.exit(main())
