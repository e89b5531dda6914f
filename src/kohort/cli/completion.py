"""Print a script that completes commands, options and their values in a shell.

bash: kohort completion bash > ~/.local/share/bash-completion/completions/kohort
zsh:  kohort completion zsh > "${fpath[1]}/_kohort"
fish: kohort completion fish > ~/.config/fish/completions/kohort.fish
"""

import argparse
import importlib
from collections.abc import Iterator, Mapping
from typing import Final

from kohort.cli.app import COMMANDS, Parser
from kohort.cli.options import RefusedError

SHELLS: Final = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="|".join(SHELLS), help="shell to generate the script for")


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    import shtab  # takes a tenth of a second

    if options.shell not in SHELLS:
        raise RefusedError(f"completion {options.shell}: is not one of {' | '.join(SHELLS)}")
    parser = _whole()
    files = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "DATA_DIR": shtab.DIRECTORY}
    for action in _actions(parser):
        _offer_values(action, files)
    print(shtab.complete(parser, options.shell))
    return 0


def _whole() -> Parser:
    """The parser of all commands at once."""
    parser = Parser("kohort", None)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"kohort.cli.{name}")
        module.add_arguments(commands.add_parser(name, description=summary, help=summary))
    return parser


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action


def _offer_values(action: argparse.Action, files: Mapping[str, object]) -> None:
    """Offer the values of a metavar such as table|json|csv, or the completion that `files` has."""
    alternatives = action.metavar.split("|") if isinstance(action.metavar, str) else []
    if len(alternatives) > 1:
        action.choices = [word for word in alternatives if word.islower()]
    elif alternatives and alternatives[0] in files:
        action.complete = files[alternatives[0]]  # type: ignore[attr-defined]  # shtab's
