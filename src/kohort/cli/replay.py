"""Send the requests of a recording to a server again, and print in what the responses differ.

The server should be in the state in which the recording began, such as without topics and groups.
Ids that a server chooses are mapped: member ids, producer ids, topic ids, fetch sessions. Requests
keep their order over all connections, and their distances in time, divided by --speed. Requests
with secrets are left out. With SASL, the replay authenticates as its own options say.

    kohort replay orders.jsonl -b localhost:9092
"""

import argparse
from pathlib import Path

from kohort.cli.client_options import add_client_arguments, client_config, run_to_exit_code
from kohort.cli.exit_codes import FOUND
from kohort.cli.options import RefusedError
from kohort.client.config import ClientConfig
from kohort.recording import Pace, RealTime, replay
from kohort.util.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="recording to replay")
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=float,
        default=1.0,
        help="replay so many times as fast; 0: without waiting between requests (default: 1)",
    )
    add_client_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if not 0 <= options.speed < float("inf"):
        raise RefusedError(f"--speed {options.speed:g}: is not a factor such as 10, or 0")
    return run_to_exit_code(_replay(options, client_config(options)))


async def _replay(options: argparse.Namespace, config: ClientConfig) -> int:
    pace = RealTime(options.speed) if options.speed else Pace()
    result = await replay(options.file, config, pace)
    for line in str(result).splitlines():
        print(printable(line))
    return FOUND if result.difference_count else 0
