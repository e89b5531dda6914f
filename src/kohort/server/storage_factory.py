"""Opens the storage of a server: its logs, and the metadata of their topics."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from kohort.errors import KafkaError, KohortError
from kohort.log.base import LogDirectory
from kohort.log.directory_errors import unusable_directory
from kohort.server.cluster import ClusterBackend, ClusterRole
from kohort.server.config import Config, in_postgres, storage_without_secrets
from kohort.server.controller import Controller
from kohort.server.metadata import METADATA


def open_backend(config: Config) -> ClusterBackend | None:
    """The storage that nodes share, not opened yet; None if the server has logs of its own.

    Raises KohortError if its client library is not installed.
    """
    if not in_postgres(config["storage"]):
        return None
    try:
        from kohort.storage.postgres.cluster.postgres_cluster import PostgresCluster
    except ImportError as error:
        raise KohortError(
            f"logs in PostgreSQL need {error.name}: pip install 'kohort[postgres]'"
        ) from None
    return PostgresCluster(
        config["storage"],
        config["node.id"],
        METADATA,
        stray_retention_ms=config["stray.retention.ms"],
    )


async def open_storage(
    config: Config, cluster: ClusterRole, opened: AsyncExitStack
) -> tuple[LogDirectory, Controller]:
    """The logs of a server, and its topics. `opened` closes them. Raises KohortError."""
    try:
        logs = await cluster.open_logs(opened)
        opened.callback(logs.close)
        controller = await _open_controller(cluster, logs)
    except OSError as error:
        raise _unusable(config, error) from error
    opened.callback(controller.close)
    opened.callback(cluster.routes.close)
    return logs, controller


async def _open_controller(cluster: ClusterRole, logs: LogDirectory) -> Controller:
    """Open every log, in another thread because checks after a crash may take long.

    The thread ends soon after this is cancelled.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(cluster.open_controller, logs))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        if logs.owned is not None:
            logs.owned.stop_opening()
        await asyncio.wait((opening,))
        opening.exception()
        raise


async def await_durable_topics(config: Config, controller: Controller) -> None:
    """Wait until the records of all topics are as durable as the policy asks.

    Nothing in a topic is acknowledged before: a log without its topic's record is a leftover that
    the next start removes. Raises KohortError.
    """
    if controller.metadata_log is None:
        return
    try:
        await controller.writer.durable()
    except KafkaError as error:
        raise _unusable(config, error.__cause__) from error


def confirm_start(config: Config, logs: LogDirectory) -> None:
    """Note in the data directory that this version has served from it. Raises KohortError."""
    if logs.owned is None:
        return
    try:
        logs.owned.confirm_start()
    except OSError as error:
        raise _unusable(config, error) from error


def _unusable(config: Config, error: object) -> KohortError:
    storage = config["storage"]
    if in_postgres(storage):
        return KohortError(f"{storage_without_secrets(storage)} cannot be used: {error}")
    if isinstance(error, OSError):
        return KohortError(unusable_directory(Path(config["log.dir"]), error))
    return KohortError(f"the data directory cannot be used: {error}")
