"""`python -m kohort_conformance HOST:PORT` compares, `… record HOST:PORT` records."""

import sys

from kohort_conformance import command, recording


def main() -> int:
    """The command `kohort-conformance`; returns its exit code."""
    match sys.argv[1:]:
        case ["record", *arguments]:
            return recording.main(arguments)
        case arguments:
            return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
