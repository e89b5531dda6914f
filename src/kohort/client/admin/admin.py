"""Administers groups, offsets, topics and transactions on any Kafka broker.

    async with Admin(bootstrap="localhost:9092") as admin:
        described = await admin.describe_groups(["orders"])
        for lag in (await admin.partition_lags("orders")).values():
            print(lag.partition, lag.lag)

Every call is bounded by the client's `default_api_timeout_ms` and retries only retriable errors:
coordinators that move or load, connections that break. A call about many groups or partitions has a
result or an error for each. So a broker that is down hides no result of the others. Coordinators
accept changes of offsets only for groups without members.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Self, Unpack
from uuid import UUID

from kohort.client.admin import (
    acl_apis,
    config_apis,
    group_apis,
    log_apis,
    offset_apis,
    quota_apis,
    topic_apis,
    transaction_apis,
    user_apis,
)
from kohort.client.admin.config_apis import ConfigEntry, ConfigResource
from kohort.client.admin.lag import PartitionLag
from kohort.client.admin.log_apis import LogDirectory
from kohort.client.admin.quota_apis import QuotaEntity, QuotaEntityType
from kohort.client.admin.time_lags import TimeLags
from kohort.client.admin.transaction_values import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListings,
)
from kohort.client.admin.values import GroupDescription, Listing
from kohort.client.cluster import (
    EARLIEST,
    LATEST,
    Cluster,
    Isolation,
    Metadata,
    Offset,
    TopicMetadata,
    list_offsets,
    open_cluster,
)
from kohort.client.config import ClientConfig, ClientOptions
from kohort.client.method_names import ADMIN, MethodHints
from kohort.client.offset_and_metadata import (
    OffsetAndMetadata,
    committable,
    validate_names,
    validate_offsets,
    validate_partitions,
)
from kohort.client.properties import checks_arguments, shows_options
from kohort.errors import KafkaError, KohortError, unless_error
from kohort.security.acls import AclBinding, AclBindingFilter
from kohort.security.scram import MIN_ITERATIONS
from kohort.types import GroupId, InstanceId, MemberId, TopicPartition

EVERY_ACL: Final = AclBindingFilter()
"""The filter that matches all entries."""
TIME_LAGS_TIMEOUT_MS: Final = 5_000
"""Time limit for lags in time: a broker that does not respond leaves them unknown."""


@shows_options(ClientConfig)
@checks_arguments
class Admin(MethodHints):
    """Administration of a cluster; `close`, or leaving its block, ends it.

    A Cluster that is passed in stays open.
    """

    _OTHER_NAMES = ADMIN

    def __init__(
        self, cluster: ClientConfig | Cluster | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        """Over an open Cluster, or by a ClientConfig or its options. Raises ConfigError."""
        self.cluster = open_cluster(cluster, options)
        self._owns_cluster = self.cluster is not cluster
        self.timeout_ms = self.cluster.config.default_api_timeout_ms

    async def __aenter__(self) -> Self:
        if self._owns_cluster:
            await self.cluster.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, unless a Cluster was passed in. Idempotent."""
        if self._owns_cluster:
            await self.cluster.close()

    # --- groups

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Listing:
        """The groups in these states and of these types, of all brokers.

        `Listing.failures` names the brokers without a response. Raises KohortError if none
        responds.
        """
        return await group_apis.list_groups(self.cluster, states, types, timeout_ms=self.timeout_ms)

    async def describe_groups(
        self, groups: Iterable[GroupId]
    ) -> dict[GroupId, GroupDescription | KohortError]:
        """State, members and assignments of each group; `Dead` for a group that does not exist."""
        validate_names("groups", groups)
        return await group_apis.describe_groups(self.cluster, groups, timeout_ms=self.timeout_ms)

    async def delete_groups(self, groups: Iterable[GroupId]) -> dict[GroupId, KohortError | None]:
        """Delete groups with all their commits; None for each deleted group."""
        validate_names("groups", groups)
        return await group_apis.delete_groups(self.cluster, groups, timeout_ms=self.timeout_ms)

    async def remove_members(
        self,
        group: GroupId,
        *,
        members: Iterable[MemberId] = (),
        instances: Iterable[InstanceId] = (),
        reason: str = "removed by an administrator",
    ) -> dict[str, KafkaError | None]:
        """Remove members by their ids, static ones by their instance ids; None for each removed.

        A running member rejoins. Raises KohortError when the group as a whole is
        refused.
        """
        validate_names("members", members)
        validate_names("instances", instances)
        return await group_apis.remove_members(
            self.cluster, group, members, instances, reason, timeout_ms=self.timeout_ms
        )

    # --- offsets

    async def committed(
        self,
        groups: Iterable[GroupId],
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[GroupId, dict[TopicPartition, OffsetAndMetadata] | KohortError]:
        """The committed offsets of each group, in these partitions or in all.

        Partitions without a commit are omitted. `require_stable`: open transactions with offsets
        of the group are awaited (KIP-447).
        """
        validate_names("groups", groups)
        if partitions is not None:
            validate_partitions(partitions)
        return await offset_apis.committed(
            self.cluster,
            groups,
            partitions,
            require_stable=require_stable,
            timeout_ms=self.timeout_ms,
        )

    async def commit(
        self,
        group: GroupId,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        topic_ids: Mapping[TopicPartition, UUID] | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit for a group without members; None for each committed partition.

        Offsets of a topic that was deleted are refused (UNKNOWN_TOPIC_ID) though another one has
        its name, for partitions in `topic_ids`; by Apache Kafka since 4.1.
        Raises KohortError when the group as a whole is refused: UNKNOWN_MEMBER_ID if it has
        members; TypeError and ValueError for invalid offsets.
        """
        validate_offsets(offsets)
        named = {tp: committable(tp, offset) for tp, offset in offsets.items()}
        return await offset_apis.commit(
            self.cluster, group, named, topic_ids or {}, timeout_ms=self.timeout_ms
        )

    async def delete_offsets(
        self, group: GroupId, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the commits of these partitions; GROUP_SUBSCRIBED_TO_TOPIC if members read them.

        Raises KohortError when the group as a whole is refused.
        """
        validate_partitions(partitions)
        return await offset_apis.delete_offsets(
            self.cluster, group, partitions, timeout_ms=self.timeout_ms
        )

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, Offset | KohortError]:
        """The offset of each partition for a timestamp (ms), EARLIEST or LATEST."""
        validate_offsets(wanted)
        return await list_offsets(self.cluster, wanted, isolation)

    # --- lag

    async def partition_lags(
        self,
        group: GroupId,
        partitions: Collection[TopicPartition] = (),
        *,
        isolation: Isolation = "read_uncommitted",
        in_time: bool = False,
    ) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in all partitions that it has committed, and in `partitions`.

        `kohort.lag` defines lag. `in_time`: also in time, as `time_lags` finds it. Raises
        KohortError when the group's offsets cannot be read.
        """
        validate_partitions(partitions)
        committed = unless_error((await self.committed([group]))[group])
        requested = committed.keys() | set(partitions)
        lags = await self.group_lags({group: committed}, {group: requested}, isolation=isolation)
        if in_time:
            return (await self.time_lags(isolation=isolation).find([lags[group]]))[0]
        return lags[group]

    async def group_lags(
        self,
        committed: Mapping[GroupId, Mapping[TopicPartition, OffsetAndMetadata]],
        partitions: Mapping[GroupId, Collection[TopicPartition]],
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> dict[GroupId, dict[TopicPartition, PartitionLag]]:
        """The lag of each group in `partitions`, given its committed offsets.

        The ends of all partitions are requested once.
        """
        every = set[TopicPartition]().union(*partitions.values())
        ends = await self.ends(every, isolation=isolation) if every else {}
        lags = {
            group: partition_lags(committed.get(group, {}), ends, partitions[group])
            for group in partitions
        }
        if isolation == "read_committed":
            await self._add_high_watermarks(lags.values())
        return lags

    def time_lags(
        self, *, isolation: Isolation = "read_uncommitted", timeout_ms: int = TIME_LAGS_TIMEOUT_MS
    ) -> TimeLags:
        """Lookups of lags in time: each `find` takes at most `timeout_ms`.

        Keep it for repeated lookups: it remembers the records that groups have not read.
        """
        return TimeLags(self.cluster, isolation, timeout_ms)

    async def _add_high_watermarks(
        self, groups: Collection[dict[TopicPartition, PartitionLag]]
    ) -> None:
        """Commits above the last stable offset are beyond the log above the high watermark only."""
        above = {tp for lags in groups for tp, lag in lags.items() if lag.beyond}
        listed = await self.list_offsets(dict.fromkeys(above, LATEST)) if above else {}
        for lags in groups:
            for tp in above & lags.keys():
                if isinstance(end := listed[tp], Offset):
                    lags[tp] = replace(lags[tp], high_watermark=end.offset)

    async def ends(
        self, partitions: Collection[TopicPartition], *, isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Log start and end offset of each partition whose leader responds."""
        validate_partitions(partitions)
        existing = await self._with_leaders(partitions)
        starts = await self.list_offsets(dict.fromkeys(existing, EARLIEST), isolation=isolation)
        # The end last, so that start <= end holds after deletions and appends in between.
        ends = await self.list_offsets(dict.fromkeys(existing, LATEST), isolation=isolation)
        return {
            partition: (start.offset, end.offset)
            for partition in existing
            if isinstance(start := starts.get(partition), Offset)
            and isinstance(end := ends.get(partition), Offset)
        }

    async def _with_leaders(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions with a leader now; requests would wait for the others."""
        requested = list(partitions)
        topics = (
            (await self.cluster.metadata({partition.topic for partition in requested})).topics
            if requested
            else {}
        )
        with_leader = {
            TopicPartition(name, metadata.index)
            for name, topic in topics.items()
            for metadata in topic.partitions
            if metadata.leader >= 0
        }
        return [partition for partition in requested if partition in with_leader]

    # --- topics

    async def describe_topics(
        self, topics: Iterable[str] | None = None
    ) -> dict[str, TopicMetadata | KafkaError]:
        """Partitions and leaders of these topics, of all when None."""
        validate_names("topics", topics)
        return await topic_apis.describe_topics(self.cluster, topics)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; -1 is the broker's default.

        Raises KohortError: TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR…
        """
        await topic_apis.create_topic(
            self.cluster,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            timeout_ms=self.timeout_ms,
        )

    async def create_partitions(self, topic: str, count: int) -> None:
        """Grow a topic to `count` partitions.

        Raises KohortError: INVALID_PARTITIONS if it has as many.
        """
        await topic_apis.create_partitions(self.cluster, topic, count, timeout_ms=self.timeout_ms)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KohortError: UNKNOWN_TOPIC_OR_PARTITION."""
        await topic_apis.delete_topic(self.cluster, name, timeout_ms=self.timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KohortError]:
        """Delete the records below each offset, all below the high watermark for -1.

        Returns the new first offset of each partition, or its error.
        """
        validate_offsets(before)
        return await log_apis.delete_records(self.cluster, before, timeout_ms=self.timeout_ms)

    # --- configs

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KohortError]:
        """The configs of each topic, broker or group, by their names."""
        return await config_apis.describe_configs(self.cluster, resources)

    async def alter_configs(
        self,
        resource: ConfigResource,
        set: Mapping[str, str] | None = None,
        *,
        delete: Collection[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set some configs, and delete others: they get their defaults back. All or none.

        `append` and `subtract` change lists. Raises KohortError: INVALID_CONFIG…
        """
        await config_apis.alter_configs(
            self.cluster,
            resource,
            set=set or {},
            delete=delete,
            append=append or {},
            subtract=subtract or {},
            validate_only=validate_only,
        )

    # --- users

    async def describe_scram_users(
        self, users: Collection[str] = ()
    ) -> dict[str, Mapping[str, int] | KohortError]:
        """Iterations by SCRAM mechanism of each of the users, of all if none is named.

        RESOURCE_NOT_FOUND for one that does not exist. Raises KohortError.
        """
        validate_names("users", users)
        return await user_apis.describe_scram_users(self.cluster, users)

    async def set_scram_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Set the password of a user for a mechanism, and create the user if it is new.

        The brokers get a salted hash, not the password. Raises KohortError.
        """
        await user_apis.set_scram_password(self.cluster, user, password, mechanism, iterations)

    async def delete_scram_credential(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> None:
        """Delete a user's credential of a mechanism. Raises KohortError: RESOURCE_NOT_FOUND."""
        await user_apis.delete_scram_credential(self.cluster, user, mechanism)

    # --- quotas

    async def describe_client_quotas(
        self, entity: Mapping[QuotaEntityType, str | None] | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by entity; `{"user": "alice"}`: of that user; a name of None: the default.

        Bytes per second, percent of a second of the event loop, or partitions per second. Raises
        KohortError.
        """
        return await quota_apis.describe_client_quotas(self.cluster, entity)

    async def alter_client_quotas(
        self,
        entity: Mapping[QuotaEntityType, str | None],
        set: Mapping[str, float] | None = None,
        *,
        delete: Collection[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some quotas of an entity, and delete others. All or none.

        Raises KohortError: INVALID_REQUEST…
        """
        await quota_apis.alter_client_quotas(
            self.cluster, entity, set=set or {}, delete=delete, validate_only=validate_only
        )

    # --- access control lists

    async def create_acls(
        self, bindings: Iterable[AclBinding]
    ) -> dict[AclBinding, KohortError | None]:
        """Add entries of the access control lists; None for each that exists now.

        Raises KohortError.
        """
        return await acl_apis.create_acls(self.cluster, list(dict.fromkeys(bindings)))

    async def describe_acls(self, wanted: AclBindingFilter = EVERY_ACL) -> list[AclBinding]:
        """The entries that match a filter. Raises KohortError: SECURITY_DISABLED."""
        return await acl_apis.describe_acls(self.cluster, wanted)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter]
    ) -> list[list[AclBinding] | KohortError]:
        """Remove the entries that each filter is for; the entries, or the error of the filter.

        Raises KohortError.
        """
        return await acl_apis.delete_acls(self.cluster, filters)

    # --- transactions

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        pattern: str = "",
    ) -> TransactionListings:
        """The transactional ids that pass all filters, of all brokers.

        `duration_ms`: only transactions that are open for longer, and ids without one; `pattern`:
        Java's regular expression for the whole id. Raises KohortError if no broker responds.
        """
        return await transaction_apis.list_transactions(
            self.cluster, states, producer_ids, duration_ms, pattern, timeout_ms=self.timeout_ms
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KohortError]:
        """State, producer and partitions of each; TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
        validate_names("transactional_ids", transactional_ids)
        return await transaction_apis.describe_transactions(
            self.cluster, transactional_ids, timeout_ms=self.timeout_ms
        )

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, KohortError | None]:
        """Fence the producers of these ids and abort their transactions; None for each fenced."""
        return await transaction_apis.fence_producers(
            self.cluster, transactional_ids, timeout_ms=self.timeout_ms
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KohortError]:
        """The idempotent and transactional producers that each partition's leader remembers."""
        return await transaction_apis.describe_producers(
            self.cluster, partitions, timeout_ms=self.timeout_ms
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
    ) -> None:
        """Abort a hanging transaction in one partition, by a marker that no coordinator writes.

        The values are those of `describe_producers`. Raises KohortError: INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED, CLUSTER_AUTHORIZATION_FAILED.
        """
        await transaction_apis.abort_transaction(
            self.cluster,
            partition,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            timeout_ms=self.timeout_ms,
        )

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, max_transaction_timeout_ms: int = 900_000
    ) -> tuple[HangingTransaction, ...]:
        """The transactions open in these partitions that no coordinator will end.

        Their last record is older than `max_transaction_timeout_ms`, which should be the brokers'
        `transaction.max.timeout.ms`. Raises KohortError if any broker gives no response.
        """
        return await transaction_apis.find_hanging(
            self.cluster,
            partitions,
            time.time_ns() // 1_000_000,
            max_transaction_timeout_ms,
            timeout_ms=self.timeout_ms,
        )

    # --- brokers

    async def describe_cluster(self) -> Metadata:
        """The cluster's id, brokers and controller, without topics. Raises KohortError."""
        return await self.cluster.metadata(())

    async def describe_log_dirs(
        self, brokers: Collection[int] = ()
    ) -> dict[int, tuple[LogDirectory, ...] | KohortError]:
        """The log directories, with the size of each partition, of these brokers or of all."""
        return await log_apis.describe_log_dirs(self.cluster, brokers)


def partition_lags(
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, tuple[int, int]],
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, PartitionLag]:
    """The lag in each partition, in order, of a group that committed these offsets."""
    lags = {}
    for partition in sorted(partitions):
        start, end = ends.get(partition, (None, None))
        lags[partition] = PartitionLag(
            partition=partition, committed=committed.get(partition), start=start, end=end
        )
    return lags
