"""Follower of the metadata log of worker 0, in every other worker."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kohort.errors import KafkaError
from kohort.log.base import LogDirectory
from kohort.security.peer import Endpoint
from kohort.server.cluster.internode import (
    Connect,
    MetadataFollower,
    NodeConnection,
    NodeUnreachableError,
    RemoteController,
)
from kohort.server.config import Config
from kohort.server.controller import ForwardingController
from kohort.server.logging import fields
from kohort.server.metadata import INTERNAL
from kohort.server.metadata_log import FollowedMetadataLog
from kohort.server.replicas import Placement

logger = logging.getLogger("kohort.serve")

_RETRY_AFTER_S: Final = 0.05
_WARN_AFTER_S: Final = 10.0
"""Time without a response of worker 0 after which a warning is logged."""


class Follower:
    """The `Participant` that applies the metadata records of worker 0 to this worker."""

    def __init__(self, node_id: int, connect: Connect) -> None:
        """`connect` connects to worker 0."""
        self.controller = RemoteController(node_id, NodeConnection(connect))
        self._log = MetadataFollower(node_id, NodeConnection(connect))
        self._metadata = FollowedMetadataLog()
        self._replica: ForwardingController
        self._following: asyncio.Task[None] | None = None

    @property
    def cluster_id(self) -> str:
        """Of the cluster, once its metadata is read."""
        return self._metadata.state.cluster_id

    async def read_all(self) -> None:
        """Read the metadata log of worker 0 up to its current end.

        Waits without a limit until worker 0 has checked its logs. A prefix of the metadata log is
        not enough: partitions of topics that are missing in it would be moved aside as strays.
        """
        loop = asyncio.get_running_loop()
        warn_at: float | None = loop.time() + _WARN_AFTER_S
        metadata, end_offset = self._metadata, None
        while (
            end_offset is None
            or metadata.end_offset < end_offset
            or not self._has_bootstrap_records()
        ):
            try:
                fetched = await self._log.read(metadata.end_offset)
            except (NodeUnreachableError, KafkaError) as error:
                if warn_at is not None and loop.time() > warn_at:
                    logger.warning("worker 0 is not serving yet", extra=fields(why=error))
                    warn_at = None
                await asyncio.sleep(_RETRY_AFTER_S)
                continue
            for offset, record in fetched.records:
                metadata.replay(offset, record)
            if not fetched.records:
                metadata.skip(fetched.end_offset)
            end_offset = end_offset or fetched.end_offset

    def _has_bootstrap_records(self) -> bool:
        names = {topic.name for topic in self._metadata.state.topics.values()}
        return bool(self._metadata.state.cluster_id) and names >= INTERNAL

    def open_controller(
        self, logs: LogDirectory, config: Config, placement: Placement
    ) -> ForwardingController:
        """The topics that were read. Blocks on the disk; raises as `ForwardingController`."""
        self._replica = ForwardingController(
            logs, config, placement, self._metadata, self.controller
        )
        return self._replica

    async def start(self, endpoints: Iterable[Endpoint], on_lost: Callable[[], object]) -> None:  # noqa: ARG002
        """Follow the metadata log; `on_lost` is called when that fails for good."""
        self._following = asyncio.create_task(self._log.run(self._replica))
        self._following.add_done_callback(partial(_ended, on_lost))

    async def leave(self) -> None:
        """Stop following. Idempotent."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    def close(self) -> None:
        """Close the connections to worker 0. Idempotent."""
        self._log.close()
        self.controller.close()


def _ended(on_lost: Callable[[], object], following: asyncio.Task[None]) -> None:
    if not following.cancelled() and (error := following.exception()) is not None:
        logger.error("cannot follow the controller; stopping", exc_info=error)
        on_lost()
