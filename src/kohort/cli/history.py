"""Collect the history of groups in tables, and show it.

__consumer_offsets has every commit, generation and member, but compaction removes older records.
`build` reads them into Parquet tables by Spark, from a broker or from its segment files; `build
--follow` does so continuously. `show` prints a timeline of one group.

  kohort history build broker:9092 --out history --follow --keep 90d
  kohort history show history billing --last 20
"""

import argparse
import importlib
from typing import Final

SUBCOMMANDS: Final = {
    "build": "read the log of groups into tables",
    "show": "show the timeline of a group from the tables",
}
"""Subcommand → what it does; the module `history_…` has `add_arguments(parser)` and
`run(options)`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in SUBCOMMANDS.items():
        module = importlib.import_module(f"kohort.cli.history_{name}")
        command = commands.add_parser(name, help=summary, description=module.__doc__)
        command.epilog = parser.epilog
        module.add_arguments(command)
        command.set_defaults(run=module.run)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    code: int = options.run(options)
    return code
