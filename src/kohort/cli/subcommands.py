"""Subcommands of `kohort topics` and others, also in the form of Kafka's tools: --list."""

import argparse
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.cli.client_options import add_client_arguments
from kohort.cli.options import RefusedError
from kohort.cli.output import add_output_argument, check_output

_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
"""A comma outside of brackets."""


class Subcommand(NamedTuple):
    """One subcommand."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Subcommands:
    """The subcommands of a command, with the functions that its module needs."""

    def __init__(self, subcommands: Mapping[str, Subcommand]) -> None:
        self._subcommands = subcommands

    def expand_arguments(self, arguments: Sequence[str]) -> Sequence[str]:
        """Turn the first `--SUBCOMMAND` into a subcommand, wherever it is in the line."""
        for index, word in enumerate(arguments):
            if word.startswith("--") and word[2:] in self._subcommands:
                return [word[2:], *arguments[:index], *arguments[index + 1 :]]
        return arguments

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(metavar="COMMAND", required=True)
        for name, subcommand in self._subcommands.items():
            command = commands.add_parser(name, help=subcommand.help, description=subcommand.help)
            command.epilog = parser.epilog
            add_client_arguments(command)
            subcommand.add_arguments(command)
            add_output_argument(command)
            command.set_defaults(run=subcommand.run)

    def run(self, options: argparse.Namespace) -> int:
        """The exit code. Raises RefusedError."""
        check_output(options)
        code: int = options.run(options)
        return code


def add_subcommand_modules(
    parser: argparse.ArgumentParser, command: str, summaries: Mapping[str, str]
) -> None:
    """Add a subcommand for each of `summaries`, by its module `kohort.cli.COMMAND_SUBCOMMAND`.

    The module has `add_arguments(parser)` and `run(options)`; its docstring is the description.
    """
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in summaries.items():
        module = importlib.import_module(f"kohort.cli.{command}_{name.replace('-', '_')}")
        subcommand = commands.add_parser(name, help=summary, description=module.__doc__)
        subcommand.epilog = parser.epilog
        module.add_arguments(subcommand)
        subcommand.set_defaults(run=module.run)


def pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """The pairs of a repeatable flag: NAME=VALUE, or several with commas. `[a,b]` is one value.

    Raises RefusedError.
    """
    values = {}
    for word in texts:
        for pair in _SEPARATOR.split(word):
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise RefusedError(f"{flag} {word}: is not NAME=VALUE")
            values[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return values
