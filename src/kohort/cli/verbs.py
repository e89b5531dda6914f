"""Subcommands of `kohort topics` and `kohort configs`, also as Kafka's tools have them: --list."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.cli.client_options import add_client_arguments
from kohort.cli.options import RefusedError
from kohort.cli.output import add_output_argument, check_output

_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
"""A comma outside of brackets."""


class Verb(NamedTuple):
    """One subcommand."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Verbs:
    """The subcommands of one command: what its module offers to the command line."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs

    def words(self, arguments: Sequence[str]) -> Sequence[str]:
        """Turn the first `--VERB` into a subcommand; its place in the line does not matter."""
        for place, word in enumerate(arguments):
            if word.startswith("--") and word[2:] in self._verbs:
                return [word[2:], *arguments[:place], *arguments[place + 1 :]]
        return arguments

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(metavar="COMMAND", required=True)
        for name, verb in self._verbs.items():
            command = commands.add_parser(name, help=verb.help, description=verb.help)
            command.epilog = parser.epilog
            add_client_arguments(command)
            verb.add_arguments(command)
            add_output_argument(command)
            command.set_defaults(run=verb.run)

    def run(self, options: argparse.Namespace) -> int:
        """The exit code. Raises RefusedError."""
        check_output(options)
        code: int = options.run(options)
        return code


def pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    """The NAME=VALUE of a repeatable flag, each perhaps several with commas; `[a,b]` is one value.

    Raises RefusedError.
    """
    found = {}
    for word in given:
        for one in _SEPARATOR.split(word):
            name, equals, value = one.partition("=")
            if not equals or not name:
                raise RefusedError(f"{flag} {word}: is not NAME=VALUE")
            found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found
