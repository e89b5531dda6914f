"""List and drain the nodes of a PostgreSQL cluster, and move partitions.

Connects to the database, not to the nodes.
"""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final, TypeAlias

from kohort.cli.exit_codes import FAILED
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.cli.storage_locations import describe_error, in_postgres
from kohort.cluster import UnknownOutcomeError
from kohort.errors import KohortError
from kohort.server.cluster_admin import ClusterAdmin
from kohort.server.config import storage_without_secrets
from kohort.server.metadata import METADATA

Tell: TypeAlias = Callable[[], None]

_STORAGE: Final = "KOHORT_STORAGE"
_COLUMNS: Final = ("NODE", "ENDPOINTS", "RACK", "PARTITIONS", "LEASE-MS", "STATE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = _command(commands, "list", "show the nodes, and the partitions that they lead", _list)
    add_output_argument(listing)
    drain = _command(commands, "drain", "move the partitions of a node to the other nodes", _drain)
    drain.add_argument("node", metavar="NODE", type=int, help="node.id of the node")
    move = _command(commands, "move", "have a node lead a partition", _move)
    move.add_argument("topic", metavar="TOPIC")
    move.add_argument("partition", metavar="PARTITION", type=int)
    move.add_argument("to", metavar="NODE", type=int, help="node.id of the new leader")
    for command in (listing, drain, move):
        command.epilog = parser.epilog
    for command in (drain, move):
        command.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=float,
            default=60.0,
            help="time to wait, in seconds (default: 60)",
        )


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    work: Callable[[ClusterAdmin, argparse.Namespace], Awaitable[Tell]],
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary)
    command.add_argument(
        "--storage",
        metavar="postgresql://…",
        default=os.environ.get(_STORAGE),
        help=f"database of the cluster (default: {_STORAGE} in the environment)",
    )
    command.set_defaults(work=work, timeout=60.0, output="table")
    return command


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises RefusedError."""
    check_output(options)
    if not 0 < options.timeout < inf:
        raise RefusedError(f"--timeout {options.timeout:g}: is not a number of seconds")
    if options.storage is None:
        raise RefusedError(
            "--storage is missing: name the PostgreSQL database that the nodes share, or set "
            f"{_STORAGE}; kohort cluster shows the nodes of any cluster"
        )
    if not in_postgres(options.storage):
        raise RefusedError("--storage is not a URL of PostgreSQL: postgresql://USER@HOST/DATABASE")
    try:
        tell = asyncio.run(_with_cluster(options))
    except (OSError, UnknownOutcomeError, KohortError) as error:
        away = "PostgreSQL cannot be used: " if isinstance(error, UnknownOutcomeError) else ""
        raise RefusedError(
            f"{storage_without_secrets(options.storage)}: {away}{describe_error(error)}"
        ) from error
    if tell is None:
        return FAILED
    tell()
    return 0


async def _with_cluster(options: argparse.Namespace) -> Tell | None:
    """A function that prints the result; None, after a message, if the time was not enough."""
    from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
    from kohort.storage.postgres.fence import OPERATOR, Fence

    storage = PostgresStorage(options.storage, Fence(OPERATOR), METADATA)
    cluster = ClusterAdmin(storage)
    try:
        async with asyncio.timeout(options.timeout):
            await storage.ensure_made()
            return await options.work(cluster, options)  # type: ignore[no-any-return]
    except TimeoutError:
        progress = "; it continues" if cluster.has_changed else ": PostgreSQL has not responded"
        print_message(f"not done within {options.timeout:g} s{progress}")
        return None
    except asyncio.CancelledError:  # by Ctrl-C
        if cluster.has_changed:
            print_message("not done yet; it continues")
        raise
    finally:
        await storage.close()


async def _list(cluster: ClusterAdmin, options: argparse.Namespace) -> Tell:
    rows = [
        {
            "node": node.id,
            "endpoints": [f"{name}://{host}:{port}" for name, host, port in node.endpoints],
            "rack": node.rack,
            "partitions": partitions,
            "lease_ms": max(lease_ms, 0),
            "state": _state(is_draining=node.is_draining, partitions=partitions, lease_ms=lease_ms),
        }
        for node, partitions, lease_ms in await cluster.nodes()
    ]
    cells = [
        [",".join(value) if isinstance(value, list) else value for value in row.values()]
        for row in rows
    ]
    return partial(show, options.output, Table(_COLUMNS, cells), rows)


def _state(*, is_draining: bool, partitions: int, lease_ms: int) -> str:
    if is_draining:
        return "draining" if partitions else "drained"
    return "serving" if lease_ms > 0 else "gone"


async def _drain(cluster: ClusterAdmin, options: argparse.Namespace) -> Tell:
    await cluster.drain(options.node)
    return partial(print_message, f"node {options.node} leads no partitions, and may be stopped")


async def _move(cluster: ClusterAdmin, options: argparse.Namespace) -> Tell:
    await cluster.move(options.topic, options.partition, options.to)
    moved = f"node {options.to} leads {options.topic}-{options.partition}"
    return partial(print_message, moved)
