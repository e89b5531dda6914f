"""Show consumer groups and change their committed offsets.

All options of Kafka's kafka-consumer-groups are supported, and so is its syntax:
`kohort groups --describe --group orders` is `kohort groups describe orders`.
"""

import argparse
import importlib
from collections.abc import Sequence
from typing import Final

from kohort.cli.options import RefusedError

SUBCOMMANDS: Final = {
    "list": "list groups",
    "describe": "show committed offsets and lag, members, or state of groups",
    "watch": "show members and lag of a group continuously",
    "rebalances": "show the rebalances of a group and their causes",
    "delete": "delete groups and their committed offsets",
    "delete-offsets": "delete a group's committed offsets of topics",
    "reset": "reset committed offsets; a dry run unless --execute",
    "copy": "copy committed offsets from another group",
    "apply": "execute a plan file of reset",
    "diff": "compare a plan file with the current offsets",
    "undo": "restore the offsets from before a reset",
    "plan": "show the assignment after a change of members or partitions",
}
"""Subcommand → what it does; the module `groups_…` has `add_arguments(parser)` and `run(options)`.
"""

KAFKA_FLAGS: Final = {
    "--list": "list",
    "--describe": "describe",
    "--delete": "delete",
    "--delete-offsets": "delete-offsets",
    "--reset-offsets": "reset",
}
"""Flags of Kafka's tool → subcommands."""


def expand_arguments(arguments: Sequence[str]) -> Sequence[str]:
    """Turn a flag of Kafka's tool into a subcommand. Raises RefusedError."""
    if arguments and arguments[0] in SUBCOMMANDS:
        return arguments
    flags = [word for word in arguments if word in KAFKA_FLAGS]
    if len(flags) > 1:
        raise RefusedError(f"{' and '.join(flags)}: choose one of them")
    return (
        [KAFKA_FLAGS[flags[0]], *(word for word in arguments if word not in KAFKA_FLAGS)]
        if flags
        else arguments
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in SUBCOMMANDS.items():
        module = importlib.import_module(f"kohort.cli.groups_{name.replace('-', '_')}")
        command = commands.add_parser(name, help=summary, description=module.__doc__)
        command.epilog = parser.epilog
        module.add_arguments(command)
        command.set_defaults(run=module.run)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    code: int = options.run(options)
    return code
