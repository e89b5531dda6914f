"""The top of the command line: what commands there are, `--version`, help, and exit codes."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from kohort.cli.exit_codes import OF_COMMAND
from kohort.cli.options import REFUSED, RefusedError
from kohort.suggestions import did_you_mean

COMMANDS: Final = {
    "serve": "serve Kafka's protocol: topics, and groups that any Kafka client can join",
    "config": "show every setting with its value, where that came from, and what it does",
    "groups": "list, describe, delete and reset consumer groups; plan, undo",
    "topics": "list, create, describe, alter and delete topics",
    "transactions": "list, describe and abort transactions; find those that hang",
    "configs": "describe and alter configs of topics, brokers and groups, and quotas of clients",
    "users": "list, add and remove users with passwords, also before the first start of a server",
    "acls": "list, add and remove access control lists, in kafka-acls' words",
    "certs": "make an authority and certificates for development",
    "repair": "show what of a damaged log has to be cut off, and cut it; needs the server stopped",
    "nodes": "list and drain the nodes of a cluster on one PostgreSQL, and move partitions",
    "storage": "copy all data into another place, and check a place: a directory, or PostgreSQL",
    "consume": "print records, as kcat does",
    "produce": "send lines or files as records, as kcat does",
    "spark": "run topics through a group into Parquet or Delta tables, by Spark",
    "demo": "show a group at work on a real data set: what `make run` runs",
    "conformance": "compare a server's responses with Apache Kafka's, field by field",
    "completion": "print a script that completes the words of this command in bash, zsh or fish",
}
"""Map each command to its description.

The module `kohort.cli.COMMAND` is imported when the command is given. It has
`add_arguments(parser)`, `run(options)`, which returns the exit code, and perhaps
`words(arguments)`, which normalises the command line.
"""

EXIT_CODES: Final = """\
0 done; 1 failed while running; 2 refused before anything was started: wrong options or
configuration, port or data directory in use; the help of each command has its own"""


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, with the right form."""

    def __init__(self, prog: str, description: str | None, exit_codes: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"exit codes: {exit_codes}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def print_help(self, file: Any = None) -> None:
        """As argparse, but raises OSError if the output cannot be written."""
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0]
        flags = [flag for action in self._actions for flag in action.option_strings]
        hint = did_you_mean(unknown, flags) if unknown else ""
        raise RefusedError(f"{message}{hint or f'; see {self.prog} --help'}")


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    try:
        if arguments and arguments[0] in COMMANDS:
            return _run_command(arguments[0], arguments[1:])
        return _run_top(arguments)
    except RefusedError as refusal:
        print(f"kohort: {refusal}", file=sys.stderr)
        return REFUSED
    except SystemExit as end:  # argparse ends the process itself after --help.
        return end.code if isinstance(end.code, int) else 0


def _run_command(name: str, arguments: Sequence[str]) -> int:
    module = importlib.import_module(f"kohort.cli.{name}")
    parser = Parser(f"kohort {name}", module.__doc__, OF_COMMAND[name])
    module.add_arguments(parser)
    words = module.words(arguments) if hasattr(module, "words") else arguments
    code: int = module.run(parser.parse_args(words))
    return code


def _run_top(arguments: Sequence[str]) -> int:
    commands = "\n".join(f"  {name:<13} {what}" for name, what in COMMANDS.items())
    parser = Parser(
        "kohort",
        f"A Kafka-compatible server and client for consumer groups.\n\ncommands:\n{commands}",
        EXIT_CODES,
    )
    parser.usage = "kohort COMMAND [OPTIONS]"
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.command is not None:
        hint = did_you_mean(options.command, COMMANDS) or "; see kohort --help"
        raise RefusedError(f"unknown command {options.command}{hint}")
    if options.version:
        from kohort import __version__

        print(f"kohort {__version__}")
    else:
        parser.print_help()
    return 0
