"""The logs of a node in PostgreSQL, which a test opens without a cluster or an event loop."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from uuid import UUID

from kohort import __version__
from kohort.storage.postgres import schema
from kohort.storage.postgres.cluster.log_registry import LogRegistry
from kohort.storage.postgres.cluster.shared_directory import SharedPostgresDirectory
from kohort.storage.postgres.fence import Fence, timeline_of
from kohort.storage.postgres.logs.log import PostgresLog
from kohort.storage.postgres.logs.open_logs import LogRequest, take_logs
from kohort.storage.postgres.logs.pages import PageCache
from kohort.types import TopicPartition

METADATA = TopicPartition("__cluster_metadata", 0)
_NO_TOPIC = itertools.count(100)
_LOGS = "select topic, partition, topic_id from logs where state = 'live'"


class Made(LogRegistry):
    """With what `directories` of other kinds have: the partitions, and the ids of their topics."""

    def __init__(self, control):
        super().__init__(control, None, __version__, __version__)
        self.topic_ids = {}

    def marks(self):
        return self.topic_ids

    def make(self, partitions):
        self.topic_ids.update(partitions)

    def id_of(self, partition):
        return self.topic_ids.setdefault(partition, UUID(int=next(_NO_TOPIC)))


class NodeLogs(SharedPostgresDirectory):
    """The node leads each log that is opened."""

    directories: Made

    def __init__(self, url, *, node=1, cached_bytes=None, most_rows=None):
        super().__init__(url, node, METADATA, stray_retention_ms=-1)
        self.directories = Made(self._control)
        self.fence = Fence(node)
        try:
            self._control.query(self._begin)
        except BaseException:
            self._control.close()
            raise
        if cached_bytes is not None:
            self._cache = PageCache(cached_bytes)
        self.session_begun(self.fence)
        if most_rows is not None:
            session = self._current()
            session._logs = replace(session._logs, most_rows=most_rows)

    async def _begin(self, connection):
        await schema.prepare(connection)
        self.fence.timeline = await timeline_of(connection)
        await self.fence.take(connection)
        self.directories.cluster_id = await connection.fetchval("select cluster_id from meta")
        for topic, partition, topic_id in await connection.fetch(_LOGS):
            self.directories.topic_ids[TopicPartition(topic, partition)] = topic_id

    def open(self, topic_partition, config, *, leader_epoch=0):
        """Take a log; blocks."""
        log = self._logs.get(topic_partition)
        if log is None:
            topic_id = self.directories.id_of(topic_partition)
            wanted = LogRequest(topic_partition, topic_id, config, leader_epoch, 0)
            (taken,) = self._control.query(partial(self._taken_now, wanted))
            with ThreadPoolExecutor(1) as threads:  # nothing can be read in the event loop's
                log = threads.submit(self._open, self._current(), config, taken).result()
            if isinstance(log, OSError):
                raise log
            self._logs[topic_partition], self._taken[topic_partition] = log, wanted
        return log

    async def _taken_now(self, wanted, connection):
        return await take_logs(connection, self.fence, METADATA, [wanted])

    def remove(self, topic_partition, topic_id):
        """As that of a node; where there is no event loop it is marked at once."""
        if is_in_loop():
            super().remove(topic_partition, topic_id)
            return
        self.retire(topic_partition)
        self.directories.topic_ids.pop(topic_partition, None)
        self._control.query(partial(self._removed, topic_id))

    async def _removed(self, topic_id, connection):
        await connection.execute("update logs set state = 'removed' where topic_id = $1", topic_id)

    async def released(self):
        """Have everything written, and close."""
        await self._release_all()
        self.close()

    def close(self):
        """As `released` where no event loop was used; else what is not written never is."""
        if not (self._closed or is_in_loop() or self._has_used_loop()):
            asyncio.run(self._release_all())
        super().close()

    def _has_used_loop(self):
        session = self._session
        if session is None:
            return True
        lanes = [lane._writing for lane in session._lanes.values()]
        working = (session.operations._working, session.deletions._working, *lanes)
        return any(each._task is not None for each in working)

    async def _release_all(self):
        for partition, log in tuple(self._logs.items()):
            if isinstance(log, PostgresLog):
                await self.release(partition)


def is_in_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
