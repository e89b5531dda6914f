"""`python -m kohort_conformance HOST:PORT`."""

import sys

from kohort_conformance import command


def main() -> int:
    """The command `kohort-conformance`; returns its exit code."""
    return command.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
