"""Show consumer groups and change their committed offsets.

Every option of Kafka's kafka-consumer-groups is here by its name, and its own form works too:
`kohort groups --describe --group orders` is `kohort groups describe orders`.
"""

import argparse
import importlib
from collections.abc import Sequence
from typing import Final

from kohort.cli.options import RefusedError

SUBCOMMANDS: Final = {
    "list": "the groups that there are",
    "describe": "members, committed offsets and lag, or state of groups",
    "watch": "members, owners and lag of one group, as they change",
    "rebalances": "generations of a group, and why: from the journal of Kohort, or any log",
    "delete": "forget groups and all that they committed",
    "delete-offsets": "forget what a group committed for some topics",
    "reset": "move committed offsets: a dry run unless --execute",
    "copy": "move a group's committed offsets to where another group is",
    "apply": "execute a plan that reset has written",
    "diff": "compare a plan with where its groups stand now",
    "undo": "bring back the offsets from before a reset",
    "plan": "who would get which partitions if members or partitions changed",
}
"""Subcommand → what it does; the module `groups_…` has `add_arguments(parser)` and `run(options)`.
"""

VERBS: Final = {
    "--list": "list",
    "--describe": "describe",
    "--delete": "delete",
    "--delete-offsets": "delete-offsets",
    "--reset-offsets": "reset",
}
"""How Kafka's tool names what to do."""


def words(arguments: Sequence[str]) -> Sequence[str]:
    """Turn a verb in the form of Kafka's tool into a subcommand. Raises RefusedError."""
    if arguments and arguments[0] in SUBCOMMANDS:
        return arguments
    verbs = [word for word in arguments if word in VERBS]
    if len(verbs) > 1:
        raise RefusedError(f"{' and '.join(verbs)}: choose one of them")
    return (
        [VERBS[verbs[0]], *(word for word in arguments if word not in VERBS)]
        if verbs
        else arguments
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, what in SUBCOMMANDS.items():
        module = importlib.import_module(f"kohort.cli.groups_{name.replace('-', '_')}")
        command = commands.add_parser(name, help=what, description=module.__doc__)
        command.epilog = parser.epilog
        module.add_arguments(command)
        command.set_defaults(run=module.run)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    code: int = options.run(options)
    return code
