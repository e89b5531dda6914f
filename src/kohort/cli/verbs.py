"""Subcommands of `kohort topics` and `kohort configs`, also as Kafka's tools have them: --list."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.cli.client_options import add_client_arguments
from kohort.cli.output import add_output_argument
from kohort.errors import ConfigError

_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
"""A comma outside of brackets."""


class Verb(NamedTuple):
    """One subcommand."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def words(arguments: Sequence[str], verbs: Mapping[str, Verb]) -> Sequence[str]:
    """Turn the first `--VERB` into a subcommand; its place in the line does not matter."""
    for place, word in enumerate(arguments):
        if word.startswith("--") and word[2:] in verbs:
            return [word[2:], *arguments[:place], *arguments[place + 1 :]]
    return arguments


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, verb in verbs.items():
        command = commands.add_parser(name, help=verb.help, description=verb.help)
        command.epilog = parser.epilog
        add_client_arguments(command)
        verb.add_arguments(command)
        add_output_argument(command)
        command.set_defaults(run=verb.run)


def pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    """The NAME=VALUE of a repeatable flag, each perhaps several with commas; `[a,b]` is one value.

    Raises ConfigError.
    """
    found = {}
    for word in given:
        for one in _SEPARATOR.split(word):
            name, equals, value = one.partition("=")
            if not equals or not name:
                raise ConfigError(f"{flag} {word}: is not NAME=VALUE")
            found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found
