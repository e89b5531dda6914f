"""Show consumer groups and change their committed offsets.

All options of Kafka's kafka-consumer-groups are supported, and so is its syntax:
`kohort groups --describe --group orders` is `kohort groups describe orders`.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from kohort.cli.options import RefusedError
from kohort.cli.subcommands import add_subcommand_modules

SUBCOMMANDS: Final = {
    "list": "list groups",
    "describe": "show committed offsets and lag, members, or state of groups",
    "watch": "show members and lag of a group continuously",
    "explain": "show why a group is not stable, and which members are awaited",
    "rebalances": "show the rebalances of a group and their causes",
    "delete": "delete groups and their committed offsets",
    "delete-offsets": "delete a group's committed offsets of topics",
    "reset": "reset committed offsets; a dry run unless --execute",
    "restore": "set committed offsets back to those of an earlier time",
    "copy": "copy committed offsets from another group",
    "apply": "execute a plan file of reset",
    "diff": "compare a plan file with the current offsets",
    "undo": "restore the offsets from before a reset",
    "plan": "show the assignment after a change of members or partitions",
}
"""Subcommand → what it does. Each is a module `groups_…`."""

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
    add_subcommand_modules(parser, "groups", SUBCOMMANDS)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    code: int = options.run(options)
    return code
