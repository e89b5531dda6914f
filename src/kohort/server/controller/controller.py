"""All that changes the metadata on one node: managers that decide, and the writer that commits."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from secrets import token_bytes
from typing import Final
from uuid import UUID, uuid4

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogDirectory
from kohort.log.directory_format import METADATA_ID
from kohort.log.partition_mark import new_cluster_id, new_topic_id
from kohort.log.shared_directory import SharedLogDirectory
from kohort.server.config import Config
from kohort.server.controller.acl_control import AclControl
from kohort.server.controller.client_quota_control import ClientQuotaControl
from kohort.server.controller.configuration_control import ConfigurationControl
from kohort.server.controller.forwarded_topic_changes import ActiveController, ForwardedTopicChanges
from kohort.server.controller.metadata_writer import MetadataWriter
from kohort.server.controller.producer_id_manager import ProducerIdManager
from kohort.server.controller.replication_control import ReplicationControl
from kohort.server.controller.scram_control import ScramControl
from kohort.server.controller.shared_topic_changes import SharedTopicChanges
from kohort.server.controller.topic_changes import TopicChanges
from kohort.server.metadata import METADATA, ClusterIdRecord, MetadataRecord
from kohort.server.metadata_log import (
    METADATA_LOG_CONFIG,
    FollowedMetadataLog,
    LocalMetadataLog,
    MetadataLog,
    SharedMetadataLog,
)
from kohort.server.replicas import (
    MetadataLoader,
    Placement,
    ReplicaManager,
    SharedReplicaManager,
    ensure_metadata_directory,
    everywhere,
)
from kohort.types import Timestamp, TopicPartition

_SECRET_BYTES: Final = 32


class Controller:
    """The managers, by what they decide on, and the writer of what they return.

    `await controller.writer.write(partial(controller.acls.create_acls, bindings))`
    """

    def __init__(self, writer: MetadataWriter, replicas: ReplicaManager) -> None:
        image = writer.metadata.state
        self.image = image
        """The metadata at any time."""
        self.metadata = writer.metadata
        self.metadata_log = self.metadata if isinstance(self.metadata, LocalMetadataLog) else None
        """The log of the metadata; None: it is no partition of this node."""
        self.writer = writer
        self.replicas = replicas
        self.replication = ReplicationControl(replicas.topics, replicas.names, new_topic_id)
        self.topics = TopicChanges(writer, replicas, self.replication)
        self.configuration = writer.configuration
        self.acls = AclControl(image, uuid4)
        self.client_quotas = ClientQuotaControl(image)
        self.scram = ScramControl(image, partial(token_bytes, _SECRET_BYTES))
        self.producer_ids = ProducerIdManager(self.allocate_producer_ids)

    async def allocate_producer_ids(self) -> range:
        """A block of unused ids, whose reservation is durable. Raises KafkaError."""
        return await self.writer.until_durable(self.reserve_producer_ids)

    def reserve_producer_ids(self) -> range:
        """`allocate_producer_ids`, whose reservation need not be durable yet."""
        ids, record = self.writer.producer_ids.next_block()
        self.writer.commit(record)
        return ids

    def close(self) -> None:
        """Stop background work. Idempotent."""
        if self.metadata_log is not None:
            self.metadata_log.close()
        self.replicas.close()


class SharedController(Controller):
    """The `Controller` of a node that shares the metadata log with others."""

    metadata: SharedMetadataLog
    replicas: SharedReplicaManager

    def __init__(
        self, logs: SharedLogDirectory, config: Config, metadata: SharedMetadataLog
    ) -> None:
        """Open the topics of `metadata`, without leading any partition yet."""
        replicas = SharedReplicaManager(
            logs, _configured(config, metadata), metadata.state, lambda: metadata.end_offset
        )
        writer = MetadataWriter(metadata, replicas, config)
        super().__init__(writer, replicas)
        loader = MetadataLoader(metadata, replicas, writer.publish)
        self.topics = SharedTopicChanges(writer, replicas, self.replication, loader.applied)
        self.producer_ids = ProducerIdManager(partial(_retriable, self.allocate_producer_ids))
        _start(self, logs, {})
        metadata.follow = loader.follow

    def close(self) -> None:
        self.metadata.close()
        super().close()


class ForwardingController(Controller):
    """The `Controller` of a node whose changes another node makes, and that follows its log."""

    metadata: FollowedMetadataLog
    topics: ForwardedTopicChanges

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        placement: Placement,
        metadata: FollowedMetadataLog,
        active: ActiveController,
    ) -> None:
        """Open the topics of `metadata`, which `active` changes; raises as `open_controller`."""
        replicas = ReplicaManager(logs, _configured(config, metadata), metadata.state, placement)
        writer = MetadataWriter(metadata, replicas, config)
        super().__init__(writer, replicas)
        self.topics = ForwardedTopicChanges(writer, replicas, self.replication, active)
        self.producer_ids = ProducerIdManager(self._next_producer_ids)
        self._active = active
        self.loader = MetadataLoader(metadata, replicas, writer.publish)
        _start(self, logs, {})

    async def _next_producer_ids(self) -> range:
        return await _retriable(self._active.allocate_producer_ids)

    @property
    def position(self) -> int:
        """Offset of the record to be followed next."""
        return self.loader.position

    async def follow(self, records: Iterable[tuple[int, MetadataRecord]]) -> None:
        """`MetadataLoader.follow`."""
        await self.loader.follow(records)

    def skip(self, offset: int) -> None:
        """Continue at this offset: the records before it were compacted away."""
        self.metadata.skip(offset)

    def close(self) -> None:
        super().close()
        self.topics.close()


def open_controller(
    logs: LogDirectory,
    config: Config,
    now: Callable[[], Timestamp],
    placement: Placement = everywhere,
) -> Controller:
    """Replay the metadata log of this node, reconcile the directories with it, open every topic.

    `placement` says which partitions have their logs here. Raises KohortError if
    the data directory cannot be used as it is, OSError if the storage fails.
    """
    owned = logs.owned
    assert owned is not None
    ensure_metadata_directory(owned.directories)
    log = owned.open(METADATA, METADATA_LOG_CONFIG, synced_by_owner=True)
    metadata = LocalMetadataLog(log, now, logs.directories.written_by)
    logs.on_reopened.append(partial(_reopened, metadata))
    replicas = ReplicaManager(logs, _configured(config, metadata), metadata.state, placement)
    controller = Controller(MetadataWriter(metadata, replicas, config), replicas)
    if not metadata.state.cluster_id:
        cluster_id = logs.directories.cluster_id or new_cluster_id()
        controller.writer.commit(ClusterIdRecord(cluster_id))
    _start(controller, logs, {METADATA: METADATA_ID})
    return controller


def _configured(config: Config, metadata: MetadataLog) -> Config:
    """`config` with the configs of brokers that clients have set."""
    ConfigurationControl(metadata.state).apply_to(config)
    return config


def _start(
    controller: Controller, logs: LogDirectory, other_partitions: dict[TopicPartition, UUID]
) -> None:
    controller.replicas.start(other_partitions)
    controller.replicas.topics.start_at(controller.metadata.end_offset)
    if controller.metadata_log is not None:
        controller.metadata_log.flush()
    logs.directories.settle(controller.image.cluster_id)


def _reopened(metadata: LocalMetadataLog, log: Log) -> None:
    if log.topic_partition == METADATA:
        metadata.on_log_reopened(log)


async def _retriable(next_block: Callable[[], Awaitable[range]]) -> range:
    """`next_block`, with an error that producers retry, as of Kafka's brokers."""
    try:
        return await next_block()
    except KafkaError as error:
        # Many clients end at another error.
        code = ErrorCode.coordinator_load_in_progress
        raise KafkaError(code, f"no producer ids in hand: {error.message}") from error
