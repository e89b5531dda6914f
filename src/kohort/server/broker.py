"""One server, put together: storage, topics, coordinators, listener, monitoring, background tasks.

Opening goes from the bottom up, and the listener serves last, so that a request never meets a
half-opened server. Only groups and transactions may still be loading then; their requests are
refused with COORDINATOR_LOAD_IN_PROGRESS. Closing goes from the top down: no new requests,
responses to those in progress, decided records appended, everything flushed.

It is the server of `kohort serve`, and of programs that embed one:

    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as broker:
        print(broker.bootstrap)
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.errors import KohortError
from kohort.log.base import Log, LogDirectory
from kohort.protocol.apis import APIS
from kohort.quotas import ClientQuotas, Windows
from kohort.runtime.clock import Clock, SystemClock
from kohort.runtime.groups import Groups
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.addresses import Address
from kohort.server.authorization import access_of
from kohort.server.background_tasks import BackgroundTasks
from kohort.server.cluster import (
    ClusterBackend,
    ClusterRole,
    LocalNode,
    Nodes,
    PartitionMarkers,
    SharedNode,
    Worker,
)
from kohort.server.config import (
    Config,
    ResourceType,
    consumer_group_config,
    group_coordinator_config,
    transaction_coordinator_config,
    waits_for_disk,
)
from kohort.server.controller import Controller, coordinator_topics
from kohort.server.fetch import FetchSessions
from kohort.server.handlers import forwarding_handler_module, handler_module
from kohort.server.listener_binder import ListenerBinder
from kohort.server.logging import AuditLog, fields
from kohort.server.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.server.monitoring import ObservedServer, Observer
from kohort.server.net import (
    ConnectionLimits,
    Dispatch,
    Dispatcher,
    HandlerModule,
    Listen,
    Listeners,
    ensure_can_listen,
    listen_on,
)
from kohort.server.replicas import GroupTopics, Topics
from kohort.server.services import Services, random_ids
from kohort.server.storage_factory import (
    await_durable_topics,
    confirm_start,
    open_backend,
    open_storage,
)
from kohort.server.throttling import Throttling
from kohort.server.tls import Certificates
from kohort.util.heavy_work import HeavyWork

logger = logging.getLogger("kohort.serve")

RESPONSE_TIMEOUT_S = 3.0
"""Time that requests in progress have when the server ends; `kohort serve` has 5 s for all of it.
"""


class Broker:
    """A server of one node. `topics`, `groups`, `address` and so on exist once `start` returned."""

    logs: LogDirectory
    topics: Topics
    controller: Controller
    groups: Groups
    transactions: TransactionCoordinator
    observer: Observer
    dispatcher: Dispatcher
    node_id: int
    cluster_id: str
    address: Address
    """The address that the first listener listens on."""
    advertised: Address
    """The address in responses of the first listener, to which clients connect."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        clock: Clock | None = None,
        worker: Worker | None = None,
        shared: ClusterBackend | None = None,
        sockets: Path | None = None,
        intercept: Callable[[Dispatch], Dispatch] | None = None,
        logs: Callable[[], LogDirectory] | None = None,
        listen: Listen = listen_on,
    ) -> None:
        """`worker`: this server is one of several, and `config` is that of this one.

        `shared` is what several nodes share, each with a `config` of its own; they talk to each
        other by Unix sockets in the directory `sockets`, or by their listeners. With logs in
        PostgreSQL, it is the database.

        `intercept` replaces the function that handles each request; a test kit can refuse requests.
        `logs` opens the logs in place of `storage`, and `listen` the sockets of the listeners.
        """
        self.config = Config() if config is None else config.copy()
        self.clock = SystemClock() if clock is None else clock
        self.node_id = self.config["node.id"]
        if shared is None:
            shared = open_backend(self.config)
        self.certificates = Certificates(self.config)
        self._cluster: ClusterRole
        if shared is None:
            self._cluster = LocalNode(self.config, self.clock, worker, logs)
        else:
            self._cluster = SharedNode(
                shared,
                sockets,
                self.config,
                self.clock,
                self.certificates,
                http_socket=None if worker is None else worker.http_socket,
            )
        self.listener = Listeners(ConnectionLimits.of(self.config), listen)
        self._listen = listen
        self._intercept = intercept
        self.addresses: dict[str, Address] = {}
        """The addresses that the server listens on, by the names of its listeners."""
        self.lost = asyncio.Event()
        """Set when the process must exit: its metadata no longer exists in the database."""
        self.http_address: Address | None = None
        """The address of the HTTP port, None if there is none."""
        self.audit_log: AuditLog | None = None
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def bootstrap(self) -> str:
        """`bootstrap` for a client: HOST:PORT of the first listener."""
        return str(self.address)

    @property
    def nodes(self) -> Nodes:
        """The nodes of the cluster, and the leaders of partitions."""
        return self._cluster.nodes

    def __repr__(self) -> str:
        where = getattr(self, "address", "not listening")
        return f"<Broker {where} cluster={getattr(self, 'cluster_id', '?')}>"

    async def start(self) -> None:
        """Open everything, and listen. Raises KohortError, and then nothing stays open."""
        try:
            await ensure_can_listen(self.config, listen=self._listen)
            await self._open_storage()
            self._open_audit_log()
            self._open_groups()
            self._open_transactions()
            self._open_observer()
            await await_durable_topics(self.config, self.controller)
            self.dispatcher = Dispatcher(await self._bind(), self._handler_module)
            self.listener.serve(self._dispatch, self._throttling)
            self._opened.push_async_callback(self.observer.close)
            self.http_address = await self.observer.start()
            self.config.on_change.append(self._configure)
            await self._participate()
            self._start_background_tasks()
            confirm_start(self.config, self.logs)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close everything, in the reverse order of opening. Idempotent.

        Raises OSError if something did not reach the disk; everything is closed all the same.
        """
        await self._opened.aclose()

    @property
    def _dispatch(self) -> Dispatch:
        dispatch: Dispatch = self.dispatcher.dispatch
        node = self._cluster
        if isinstance(node, SharedNode):
            dispatch = node.with_lease_check(dispatch)
        return dispatch if self._intercept is None else self._intercept(dispatch)

    @property
    def _handler_module(self) -> HandlerModule:
        """Finds handlers. If another node is the controller, handlers of changes forward to it."""
        is_controller = self._cluster.controller is None
        return handler_module if is_controller else forwarding_handler_module

    async def _open_storage(self) -> None:
        self.logs, self.controller = await open_storage(self.config, self._cluster, self._opened)
        self.topics = self.controller.replicas.topics
        self.cluster_id = self.controller.image.cluster_id
        self.listener.limit(ConnectionLimits.of(self.config))  # including dynamic configs

    async def _participate(self) -> None:
        """Follow the controller, or lead partitions beside other nodes."""
        participant = self._cluster.participant
        if participant is not None:
            self._opened.push_async_callback(participant.leave)
            endpoints = [listener.endpoint for listener in self.listener.listeners]
            await participant.start(endpoints, self.lost.set)

    def _open_audit_log(self) -> None:
        path = self.config["audit.log.file"]
        if path is None:
            return
        allowed_too = self.config["audit.log.decisions"] == "all"
        try:
            self.audit_log = AuditLog(path, allowed_too=allowed_too)
        except OSError as error:
            raise KohortError(f"audit.log.file={path} cannot be written: {error}") from error
        self._opened.callback(self.audit_log.close)

    def reopen_audit_log(self) -> None:
        """Open a new file, after the old one was moved away; a failure is logged."""
        if self.audit_log is None:
            return
        try:
            self.audit_log.reopen()
        except OSError as error:
            logger.error("cannot reopen the audit log", extra=fields(why=error))

    def _open_groups(self) -> None:
        self.groups = Groups(
            self._state_logs(OFFSETS_TOPIC),
            self._group_config(),
            self.clock,
            waits_for_disk=self._waits_for_disk,
            expiration_interval_ms=self.config["offsets.retention.check.interval.ms"],
            topics=GroupTopics(self.topics, self.config["broker.rack"]),
        )
        self.controller.replicas.deletions.on_deleted.append(self.groups.topics_deleted)
        self.logs.on_reopened.append(self.groups.log_reopened)
        self._opened.push_async_callback(self.groups.close)
        self.groups.start()

    def _open_transactions(self) -> None:
        self._markers = PartitionMarkers(
            self.topics, self.groups, self.clock, waits_for_disk=self._waits_for_disk
        )
        self.transactions = TransactionCoordinator(
            self._state_logs(TRANSACTIONS_TOPIC),
            transaction_coordinator_config(self.config),
            self.clock,
            new_producer_id=self.controller.producer_ids.next,
            marker_writer=self._cluster.routes.markers(self._markers),
            waits_for_disk=self._waits_for_disk,
            expiration_interval_ms=self.config[
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ],
        )
        self.logs.on_reopened.append(self.transactions.log_reopened)
        self._opened.push_async_callback(self.transactions.close)
        self.transactions.start()

    def _open_observer(self) -> None:
        self._access = access_of(self.config, self.controller.image.acls, self.audit_log)
        self._opened.push_async_callback(self.certificates.close)
        server = ObservedServer(
            config=self.config,
            cluster_id=self.cluster_id,
            topics=self.topics,
            groups=self.groups,
            transactions=self.transactions,
            problems=self.logs.problems,
            traffic=self.listener.statistics,
            find_access=self._access,
            cluster=self._cluster,
        )
        https = self.config.https
        self.observer = Observer(
            server, None if https is None else self.certificates.open(https), self.clock
        )
        self.groups.on_rebalance.append(self.observer.on_rebalance)
        self.logs.on_written.append(self.observer.database_appends.observe)

    @property
    def _waits_for_disk(self) -> bool:
        return waits_for_disk(self.config)

    def _state_logs(self, name: str) -> Sequence[Log]:
        """The logs of a coordinator's topic."""
        topic = self.topics.get(name)
        if topic is None:
            new_topic = next(
                record for record in coordinator_topics(self.config) if record.name == name
            )
            topic = self.controller.topics.create(
                name, new_topic.partitions, new_topic.configs, internal=True
            )
        return topic.partitions

    async def _bind(self) -> Services:
        """Bind the addresses, which completes what handlers need."""
        self._opened.push_async_callback(self.listener.close, RESPONSE_TIMEOUT_S)
        binder = ListenerBinder(
            self.config,
            self.listener,
            self.certificates,
            lambda: self.controller.image.scram_users,
            self.clock,
            self._opened,
        )
        self.addresses = await binder.bind_listeners()
        first = self.listener.listeners[0].endpoint
        self.address = self.addresses[first.listener]
        self.advertised = Address(first.host, first.port)
        binder.bind_paths(self._cluster.node_socket)
        self.controller.writer.on_acls_changed.append(self.listener.acls_changed)
        windows = Windows(
            self.config["quota.window.num"], self.config["quota.window.size.seconds"] * 1000
        )
        self._throttling = Throttling(
            ClientQuotas(self.controller.image.quotas, windows), self.clock
        )
        heavy_work = HeavyWork()
        self._opened.callback(heavy_work.close)
        return Services(
            access=self._access,
            heavy_work=heavy_work,
            config=self.config,
            certificates=self.certificates,
            topics=self.topics,
            groups=self.groups,
            transactions=self.transactions,
            markers=self._markers,
            verifier=self._cluster.routes.verifier(self.transactions),
            controller=self.controller,
            active_controller=self._cluster.controller,
            fetch_sessions=FetchSessions(self.config["max.incremental.fetch.session.cache.slots"]),
            throttling=self._throttling,
            clock=self.clock,
            new_id=random_ids().__next__,
            nodes=self._cluster.nodes,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
        )

    def reload_files(self) -> None:
        """Reload certificates, and reopen the audit log."""
        self.certificates.reload()
        self.reopen_audit_log()

    def _group_config(self) -> GroupCoordinatorConfig:
        return replace(
            group_coordinator_config(self.config), consumer_of=self._consumer_group_config
        )

    def _consumer_group_config(self, group: str) -> ConsumerGroupConfig | None:
        own = self.controller.configuration.configs_of(ResourceType.GROUP, group)
        return consumer_group_config(self.config, own) if own else None

    def _configure(self) -> None:
        """Apply dynamic configs."""
        self.listener.limit(ConnectionLimits.of(self.config))
        self.certificates.config_changed()
        self.groups.configure(self._group_config())
        self.transactions.configure(transaction_coordinator_config(self.config))

    def _start_background_tasks(self) -> None:
        tasks = BackgroundTasks(
            self.config,
            self.clock,
            self.logs,
            self.topics,
            self.groups,
            # No client waits for the import of a handler.
            warm_ups=[partial(self.dispatcher.load, api_key) for api_key in APIS],
        )
        self._opened.push_async_callback(tasks.close)
        tasks.start()
