"""Asks for a broker before Spark is started: without one the command ends as the others do."""

import argparse
import asyncio
from typing import Final

from kohort.cli.client_options import (
    client_config,
    client_properties,
    run_to_exit_code,
    timeout_ms,
)
from kohort.cli.opened_cluster import opened_cluster
from kohort.cli.output import print_message
from kohort.client.cluster import Cluster
from kohort.client.net import format_address

SILENT_S: Final = 1.0
"""How long the command waits before it says so."""


def await_broker(options: argparse.Namespace) -> int:
    """Wait for a broker of `-b`, up to `--timeout`; the exit code.

    After a second there is a message that the command waits. An error is one line on stderr and
    code 1. Raises RefusedError.
    """
    from kohort.spark import kafka_options

    config = client_config(options, client_properties(options, kafka_options.READS))

    async def connected() -> int:
        async with opened_cluster(options, config) as cluster:
            request = asyncio.ensure_future(_metadata(cluster))
            try:
                if not (await asyncio.wait([request], timeout=SILENT_S))[0]:
                    servers = ", ".join(map(format_address, config.servers))
                    limit = timeout_ms(options) / 1000
                    print_message(f"waiting for a broker at {servers}, for {limit:g} s at most")
                await request
            finally:
                request.cancel()
        return 0

    return run_to_exit_code(connected())


async def _metadata(cluster: Cluster) -> None:
    await cluster.metadata(())
