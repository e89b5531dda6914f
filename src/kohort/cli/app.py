"""The top of the command line: the table of commands, `--version`, help, and exit codes."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from kohort.cli import collect_garbage, foreign_tool_hints
from kohort.cli.exit_codes import OF_COMMAND
from kohort.cli.missing_extras import advice
from kohort.cli.options import REFUSED, RefusedError
from kohort.util.printable import printable
from kohort.util.text import did_you_mean

COMMANDS: Final = {
    "serve": "run a Kafka-compatible server",
    "config": "show every setting with its value, source and description",
    "cluster": "show the nodes and features of a cluster, and its numbers of topics and groups",
    "groups": "list, describe, reset and delete consumer groups",
    "topics": "list, create, describe, alter and delete topics",
    "transactions": "list, describe and abort transactions; find hanging transactions",
    "configs": "describe and alter configs of topics, brokers and groups, and quotas of clients",
    "users": "list, add and remove users with SCRAM passwords",
    "acls": "list, add and remove access control lists (ACLs)",
    "certs": "create a certificate authority and certificates for development",
    "repair": "find damage in the logs of a stopped server, and repair it",
    "nodes": "list and drain the nodes of a PostgreSQL cluster, and move partitions",
    "storage": "copy all data to another storage, and check a storage",
    "consume": "print records, with the options of kcat",
    "produce": "send lines or files as records, with the options of kcat",
    "spark": "write topics to Parquet or Delta tables with Spark",
    "history": "collect the history of groups in tables with Spark, and show it",
    "record": "record the traffic between clients and any Kafka to a file",
    "replay": "send the requests of a recording again, and compare the responses",
    "conformance": "compare a server's responses with Apache Kafka's, field by field",
    "completion": "print a completion script for bash, zsh or fish",
}
"""Map each command to its description.

The module `kohort.cli.COMMAND` is imported when the command is given. It has
`add_arguments(parser)`, `run(options)`, which returns the exit code, and perhaps
`expand_arguments(arguments)`, which turns other tools' forms into those of argparse.
"""

EXIT_CODES: Final = """\
0 done; 1 failed while running; 2 refused before anything was started: wrong options or
configuration, port or data directory in use; the help of each command has its own"""


_NEXT_PROBLEM: Final = "\n  "
"""Beginning of each line of an error that names several problems."""


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
        flags = [
            flag
            for action in self._actions
            for flag in action.option_strings
            if action.dest != "help"
        ]
        hint = did_you_mean(unknown, flags) if unknown else ""
        raise RefusedError(f"{message}{hint or f'; see {self.prog} --help'}")


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    try:
        match arguments:
            case ["help", *words]:
                arguments = [*words, "--help"]
            case ["version"]:
                arguments = ["--version"]
        if not arguments or arguments[0].startswith("-"):
            return _run_top(arguments)
        return _run_command(arguments[0], arguments[1:])
    except RefusedError as refusal:
        print(_NEXT_PROBLEM.join(map(printable, _lines(refusal))), file=sys.stderr)
        return REFUSED
    except SystemExit as end:  # argparse ends the process itself after --help.
        return end.code if isinstance(end.code, int) else 0


def _lines(refusal: RefusedError) -> list[str]:
    """One line, or one for each of several problems. Problems have no line ends."""
    from kohort.client.properties import RefusedOptionsError  # few commands are refused

    text = f"kohort: {refusal}"
    several = isinstance(refusal.__cause__, RefusedOptionsError)
    return text.split(_NEXT_PROBLEM) if several else [text]


def _run_command(name: str, arguments: Sequence[str]) -> int:
    if name not in COMMANDS:
        if (meant := foreign_tool_hints.command(name)) is not None:
            raise RefusedError(f"unknown command {name}; did you mean {meant}?")
        hint = did_you_mean(name, COMMANDS) or "; see kohort --help"
        raise RefusedError(f"unknown command {name}{hint}")
    try:
        return _run_module(name, arguments)
    except ModuleNotFoundError as error:
        if (refusal := advice(name, error)) is None:
            raise
        raise RefusedError(refusal) from error


def _run_module(name: str, arguments: Sequence[str]) -> int:
    module = importlib.import_module(f"kohort.cli.{name}")
    collect_garbage()
    parser = Parser(f"kohort {name}", module.__doc__, OF_COMMAND[name])
    module.add_arguments(parser)
    command_line = (
        module.expand_arguments(arguments) if hasattr(module, "expand_arguments") else arguments
    )
    if command_line and command_line[0] == "help" and _commands_of(parser):
        command_line = [*command_line[1:], "--help"]
    command = _subcommand(parser, command_line)
    # parse_known_args does not accept positional arguments on both sides of an option.
    parse = (
        parser.parse_known_intermixed_args if _takes_any_number(parser) else parser.parse_known_args
    )
    options, unknown = parse(command_line)
    if unknown:
        message = f"unrecognized arguments: {' '.join(unknown)}"
        if hint := foreign_tool_hints.hint(name, unknown):
            raise RefusedError(message + hint)
        command.error(message)
    code: int = module.run(options)
    return code


def _takes_any_number(parser: argparse.ArgumentParser) -> bool:
    return any(action.nargs == argparse.ZERO_OR_MORE for action in parser._get_positional_actions())


def _commands_of(parser: argparse.ArgumentParser) -> list[Any]:
    """The action with the subcommands, if there are any."""
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _subcommand(
    parser: argparse.ArgumentParser, command_line: Sequence[str]
) -> argparse.ArgumentParser:
    """The parser of the subcommand that the first word names; `parser` if it has none.

    Raises RefusedError.
    """
    groups = _commands_of(parser)
    name = command_line[0] if command_line else ""
    if not groups or name in ("-h", "--help"):
        return parser
    commands: dict[str, argparse.ArgumentParser] = groups[0].choices
    if name in commands:
        return commands[name]
    hint = did_you_mean(name.lstrip("-"), commands) or f"; its commands are {', '.join(commands)}"
    if not name or name.startswith("-"):
        raise RefusedError(f"{parser.prog} needs a command before any option{hint}")
    raise RefusedError(f"{parser.prog} has no command {name}{hint}")


def _run_top(arguments: Sequence[str]) -> int:
    commands = "\n".join(f"  {name:<13} {summary}" for name, summary in COMMANDS.items())
    parser = Parser(
        "kohort",
        f"A Kafka-compatible server and client for consumer groups.\n\ncommands:\n{commands}",
        EXIT_CODES,
    )
    parser.usage = "kohort COMMAND [OPTIONS]"
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        hint = foreign_tool_hints.hint("", unknown) or "; see kohort --help"
        raise RefusedError(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if options.version:
        from kohort import __version__

        print(f"kohort {__version__}")
    else:
        parser.print_help()
    return 0
