"""One server, put together: storage, topics, groups, listener and chores. What each does is its own
affair.

Opening goes from the bottom up and the listener comes last, so that a request never meets a
half-made broker; only the groups are still being read from their log then, and say so
(COORDINATOR_LOAD_IN_PROGRESS). Closing goes from the top down: no new requests, answers to those in
progress, what was decided appended, everything flushed.

It is the server of `kohort serve`, and of whoever embeds one:

    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as broker:
        print(broker.address)
"""

import asyncio
import errno
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from kohort.coordinator.config import GroupConfig
from kohort.errors import KafkaError, KohortError
from kohort.log.base import Log, LogDirectory
from kohort.runtime.clock import Clock, SystemClock
from kohort.runtime.groups import Groups
from kohort.server.addresses import Address
from kohort.server.background_tasks import Chores
from kohort.server.config import Config
from kohort.server.fetch import FetchSessions
from kohort.server.monitoring import Observer
from kohort.server.net import Listener
from kohort.server.topics import Topics

GROUP_LOG = "__consumer_offsets"
ANSWERS_WITHIN_S = 3.0
"""How long requests in progress may take when the server ends: `kohort serve` has 5 s for the
whole.
"""


class Broker:
    """A server of one node. `topics`, `groups`, `address` and so on exist once `start` has
    returned.
    """

    config: Config
    logs: LogDirectory
    topics: Topics
    groups: Groups
    node_id: int
    cluster_id: str
    address: Address
    """What is listened on."""
    advertised: Address
    """What clients are told to connect to."""

    def __init__(self, config: Config | None = None, *, clock: Clock | None = None) -> None:
        self.config = Config() if config is None else config
        self.clock = SystemClock() if clock is None else clock
        self.node_id = self.config["node.id"]
        self.fetch_sessions = FetchSessions(
            self.config["max.incremental.fetch.session.cache.slots"]
        )
        self.listener = Listener(self)
        self.observer = Observer(self)
        self._chores = Chores(self)
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        where = getattr(self, "address", "not listening")
        return f"<Broker {where} cluster={getattr(self, 'cluster_id', '?')}>"

    @property
    def http_address(self) -> Address | None:
        """Where the HTTP port listens, None if it does not."""
        return self.observer.address

    async def start(self) -> None:
        """Open everything, and listen. Raises KohortError, and then nothing stays open."""
        try:
            self._open_storage()
            self._open_groups()
            await self._settle()
            await self._listen()
            self._opened.push_async_callback(self.observer.close)
            await self.observer.start()
            self._opened.push_async_callback(self._chores.close)
            self._chores.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End everything, what was opened last first. Idempotent.

        Raises OSError if something did not reach the disk; all the rest has ended all the same.
        """
        await self._opened.aclose()

    def _open_storage(self) -> None:
        try:
            self.logs = open_directory(self.config)
            self._opened.callback(self.logs.close)
            self.topics = Topics(self.logs, self.config, self.clock.now)
        except OSError as error:
            raise KohortError(f"the data directory cannot be used: {error}") from error
        self.cluster_id = self.topics.cluster_id

    def _open_groups(self) -> None:
        self.groups = Groups(
            self._group_logs(),
            group_config(self.config),
            self.clock,
            waits_for_disk=self.config["durability"] == "fsync",
            expiration_interval_ms=self.config["offsets.retention.check.interval.ms"],
        )
        self.topics.on_deleted.append(self.groups.topics_deleted)
        self.groups.on_rebalance.append(self.observer.on_rebalance)
        self._opened.push_async_callback(self.groups.close)
        self.groups.start()

    def _group_logs(self) -> Sequence[Log]:
        topic = self.topics.get(GROUP_LOG)
        if topic is None:
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self.config["offsets.topic.segment.bytes"]),
            }
            partitions = self.config["offsets.topic.num.partitions"]
            topic = self.topics.create(GROUP_LOG, partitions, configs, internal=True)
        return topic.partitions

    async def _settle(self) -> None:
        """Have what topics there are on the disk, if the policy asks for it, before anything in
        them is acknowledged: a log without its topic's record would be removed as a leftover.
        """
        try:
            await self.topics.durable()
        except KafkaError as error:
            raise KohortError(f"the data directory cannot be used: {error.__cause__}") from error

    async def _listen(self) -> None:
        wanted, told = self.config.listen, self.config.advertise
        # The first request may come before the port that was bound is known here, but not if it was
        # chosen.
        self.advertised = told or wanted
        self._opened.push_async_callback(self.listener.close, ANSWERS_WITHIN_S)
        try:
            host = wanted.host if wanted.port else await first_address(wanted.host)
            bound = await self.listener.start(host, wanted.port)
        except OSError as error:
            raise KohortError(cannot_listen(wanted, error, "--listen")) from error
        self.address = Address(host, bound[1])
        self.advertised = (
            self.address if told is None else Address(told.host, told.port or bound[1])
        )


def open_directory(config: Config) -> LogDirectory:
    """The logs of a server, on disk or in memory. Raises KohortError if another server has them,
    OSError.
    """
    if config["storage"] == "memory":
        from kohort.log.memory import MemoryDirectory

        return MemoryDirectory()
    from kohort.log.local import LocalDirectory

    return LocalDirectory(config["log.dir"], durability=config["durability"])


def group_config(config: Config) -> GroupConfig:
    """What of the configuration the coordinator goes by."""
    return GroupConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        max_record_bytes=config["message.max.bytes"],
    )


async def first_address(host: str) -> str:
    """One address of a name: on several, port 0 would be a different port on each. Raises OSError."""
    if not host:
        return host
    found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def cannot_listen(wanted: Address, error: OSError, flag: str) -> str:
    """Why an address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        free = Address(wanted.host, 0)
        return (
            f"{wanted} is in use by another process; choose another address with {flag}, or "
            f"{free} for a free port"
        )
    if error.errno == errno.EACCES:
        return (
            f"{wanted} cannot be listened on: permission denied; ports below 1024 are often "
            "reserved for root"
        )
    return (
        f"{wanted} cannot be listened on: {error.strerror or error}; choose another address "
        f"with {flag}"
    )
