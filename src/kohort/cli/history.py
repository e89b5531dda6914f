"""Collect the history of groups in tables, and show it.

__consumer_offsets has every commit, generation and member, but compaction removes older records.
`build` reads them into Parquet tables by Spark, from a broker or from its segment files; `build
--follow` does so continuously. `show` prints a timeline of one group, `audit` its commits, `check`
finds faults. `report` draws one group or all of them as an HTML page. `export` and `import` move
committed offsets to another cluster; `kohort groups restore` sets them back to an earlier time.

  kohort history build broker:9092 --out history --follow --keep 90d
  kohort history show history billing --last 20
  kohort history check history --severity info
  kohort history report history --all --out groups.html
"""

import argparse
from typing import Final

from kohort.cli.subcommands import add_subcommand_modules

SUBCOMMANDS: Final = {
    "build": "read the log of groups into tables",
    "check": "find faults of groups, and say what to do",
    "show": "show the timeline of a group from the tables",
    "report": "write what groups did as an HTML page and a picture",
    "audit": "show who committed which offsets of a group, and resets",
    "export": "write committed offsets to a file, for another cluster",
    "import": "commit the offsets of such a file in another cluster; a dry run unless --execute",
}
"""Subcommand → what it does. Each is a module `history_…`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subcommand_modules(parser, "history", SUBCOMMANDS)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    code: int = options.run(options)
    return code
