"""The topics of this server; each change is one record of the metadata log.

A change happens in this order, so that a power loss at any point leaves topics and data consistent:

1. it is validated;
2. a creation or growth makes the directories of its partitions, marked with the topic's id, and
   they are on the disk;
3. the record is appended and replayed, which is the moment when it happened: a topic that Metadata
   shows takes appends, a deleted one does not;
4. the record is on the disk (`durable`), and only then the response is sent;
5. the directories of a deleted topic are removed, and groups forget its offsets.

Changes by clients follow one another (`change`), and wait for the disk in other threads.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import Any, TypeVar
from uuid import UUID, uuid4

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.base import Log, LogDirectory, OwnedLogDirectory
from kohort.log.directory_format import METADATA_ID
from kohort.log.partition_mark import new_cluster_id, new_topic_id
from kohort.quotas import QuotaEntity, QuotaTable
from kohort.security.acls import AclBinding, Acls
from kohort.security.scram import ScramCredential, ScramMechanism, ScramUsers
from kohort.server.config import Config, ResourceType, validate_topic_configs
from kohort.server.controller import (
    AclControl,
    ClientQuotaControl,
    ConfigurationControl,
    ProducerIdControl,
    ProducerIdManager,
    ScramControl,
)
from kohort.server.logging import fields
from kohort.server.metadata import (
    BATCH_RECORDS,
    METADATA,
    AclRecord,
    AclRemoved,
    ClusterIdRecord,
    SupersededError,
    TopicDeleted,
    TopicRecord,
    in_batches,
    places_of,
    storage_error,
    validate_creatable,
)
from kohort.server.replicas import (
    Placement,
    ResponseCache,
    Topic,
    TopicLogs,
    ensure_metadata_directory,
    everywhere,
    reconcile,
)
from kohort.server.topics.claimed_names import ClaimedNames
from kohort.server.topics.followers import Followers
from kohort.server.topics.metadata_log import METADATA_LOG, Metadata, MetadataLog
from kohort.server.topics.new_topic import Growth, NewTopic
from kohort.types import Timestamp, TopicIdPartition, TopicPartition
from kohort.util.time_slice import TimeSlices

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's own limit for what one request may create."""

_SECRET_BYTES = 32

R = TypeVar("R")

_log = logging.getLogger("kohort.topics")


class Topics:
    """Every topic of this server."""

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        now: Callable[[], Timestamp],
        placement: Placement = everywhere,
        metadata: Metadata | None = None,
    ) -> None:
        """Replay the metadata log, make the directories agree with it, open every topic.

        Of each topic those partitions have their logs here that `placement` says. `metadata` is
        what another node has told; None: the log of it is here.
        Raises KohortError if the data directory cannot be used as it is, OSError if the storage
        fails.
        """
        self._logs = TopicLogs(logs, config, placement, self.leader_epoch)
        self._config = config
        self._now = now
        self._topics: dict[str, Topic] = {}
        self._names: dict[UUID, str] = {}
        self._version = self._created_version = 0
        owned = logs.owned
        self._claimed = ClaimedNames(
            is_case_insensitive=owned is not None and owned.directories.is_case_insensitive
        )
        self.responses = ResponseCache()
        """Emptied by every change of a topic."""
        self.on_deleted: list[Callable[[frozenset[str]], Sequence[asyncio.Task[None]] | None]] = []
        """Called with the names of topics that are gone, when no power loss can bring them back.

        No topic of these names is created before the tasks that are returned have ended.
        """
        self.followers = Followers()
        """The nodes that are told of every change."""
        self.on_acls_changed: list[Callable[[], None]] = []
        """Called after each change of the ACLs."""
        self._forgetting: dict[str, list[asyncio.Task[None]]] = {}
        """Those tasks, by topic."""
        self._changing = asyncio.Lock()
        """Held by each deletion of topics that waits in between."""
        self._changes: set[asyncio.Task[Any]] = set()
        self._to_tell: set[str] = set()
        """Deleted topics that `on_deleted` has not been told of."""
        self._reconfiguring: asyncio.Task[None] | None = None
        self._to_remove: dict[TopicPartition, UUID] = {}
        """Partitions of deleted topics: their records go once the deletion is on the disk."""
        self._to_revert: deque[Callable[[], object]] = deque()
        """Short steps that are left to do for changes that were taken back."""
        places: dict[TopicPartition, UUID] = {}
        if metadata is None:
            assert owned is not None
            places[METADATA] = METADATA_ID
            ensure_metadata_directory(owned.directories)
            log = owned.open(METADATA, METADATA_LOG, synced_by_owner=True)
            metadata = MetadataLog(log, now, logs.directories.written_by)
        self._metadata = metadata
        metadata.on_taken_back = self._taken_back
        state = metadata.state
        self._configuration = ConfigurationControl(state)
        self._apply_broker_configs()
        config.on_change.append(self._reconfigure)
        if not state.cluster_id:
            self._metadata.commit(ClusterIdRecord(logs.directories.cluster_id or new_cluster_id()))
        self._acl_control = AclControl(state, uuid4)
        self._quota_control = ClientQuotaControl(state)
        self._scram_control = ScramControl(state, partial(token_bytes, _SECRET_BYTES))
        self._producer_id_control = ProducerIdControl(state)
        self.producer_ids = ProducerIdManager(self._take_producer_ids)
        if owned is not None:
            self._reconcile(owned, places)
        state.deleted = None
        logs.on_reopened.append(self._reopened)
        self._logs.recover(state.topics.values())
        for record in state.topics.values():
            self._add(self._logs.opened(record))
        self._version = self._created_version = self._metadata.end_offset
        self._metadata.flush()
        logs.directories.settle(state.cluster_id)

    def _reconcile(self, logs: OwnedLogDirectory, places: dict[TopicPartition, UUID]) -> None:
        """Have the directories agree with the metadata; `places` are those beside topics."""
        state = self._metadata.state
        for record in state.topics.values():
            places |= self._logs.here(places_of(record))
        for partition, why in reconcile(logs.directories, state, places).items():
            logs.refuse(partition, why)

    def close(self) -> None:
        """End what goes on beside requests. Idempotent."""
        self._metadata.close()
        self._to_revert.clear()

    # Reading

    @property
    def cluster_id(self) -> str:
        return self._metadata.state.cluster_id

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def __len__(self) -> int:
        return len(self._topics)

    def all(self) -> Iterable[Topic]:
        return self._topics.values()

    def log(self, name: str, partition: int) -> Log | None:
        """The log of a partition, None if there is no such topic or partition."""
        topic = self._topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    def leader_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch in which a partition is led, as far as the metadata tell; 0 at first."""
        leader = self._metadata.state.cluster.leaders.get(TopicIdPartition(topic_id, partition))
        return 0 if leader is None else leader.epoch

    @property
    def version(self) -> int:
        """Grows whenever a topic is created, deleted or grows; a restart does not set it back."""
        return self._version

    @property
    def created_version(self) -> int:
        """`version` at the latest creation of a topic, or at the start of the server."""
        return self._created_version

    @property
    def metadata_end_offset(self) -> int:
        """End offset of `__cluster_metadata`."""
        return self._metadata.end_offset

    @property
    def logged_end_offset(self) -> int:
        """End offset of what of `__cluster_metadata` is durable."""
        return self._metadata.durable_end

    def logged(self, offset: int) -> bytes:
        """Batches of `__cluster_metadata` from that offset on, as far as they are durable.

        At most a megabyte, empty at the end. Raises KafkaError, OSError.
        """
        return self._metadata.read(offset)

    async def logged_beyond(self, offset: int) -> None:
        """Return as soon as more than `offset` of `__cluster_metadata` is durable."""
        await self._metadata.wait_beyond(offset)

    @property
    def last_change(self) -> int:
        """Number of the latest change, for `durable` and `is_kept`."""
        return self._metadata.last_change

    async def durable(self, change: int | None = None) -> None:
        """Return when that change, or every change so far, is on the disk.

        Raises KafkaError KAFKA_STORAGE_ERROR if it was taken back.
        """
        deleted, names = tuple(self._to_remove.items()), frozenset(self._to_tell)
        try:
            await self._metadata.durable(change)
        except OSError as error:
            await self._reverted()
            raise storage_error(error) from error
        await self.followers.know(self.metadata_end_offset)
        await self._finish_deletions(names, deleted)

    async def _finish_deletions(
        self, names: frozenset[str], deleted: Iterable[tuple[TopicPartition, UUID]]
    ) -> None:
        """Forget topics whose deletion is on the disk, and remove the records of partitions."""
        self._tell_deleted(names)
        slices = TimeSlices()
        for partition, topic_id in deleted:
            self._remove(partition, topic_id)
            await slices.give_way()

    def flush(self) -> None:
        """`durable`, blocking until it is done."""
        try:
            self._metadata.flush()
        except OSError as error:
            raise storage_error(error) from error
        self._tell_deleted(frozenset(self._to_tell))
        for partition, topic_id in tuple(self._to_remove.items()):
            self._remove(partition, topic_id)

    def _tell_deleted(self, names: frozenset[str]) -> None:
        # Others may wait for the disk at the same time; the first tells of all.
        news = names & self._to_tell
        self._to_tell -= news
        if news:
            tasks = [task for tell in self.on_deleted for task in tell(news) or ()]
            self._forgetting = {
                name: going_on
                for name, before in (self._forgetting | dict.fromkeys(news, tasks)).items()
                if (going_on := [task for task in before if not task.done()])
            }

    async def decided(self, change: Callable[[], R]) -> R:
        """What `change` returns, once that is durable.

        It is called again as long as another node has changed the same before. Raises what it
        raises, KafkaError KAFKA_STORAGE_ERROR, and REQUEST_TIMED_OUT as `in_time` does.
        """

        async def decide() -> R:
            return change()

        return await self.decided_later(decide)

    async def decided_later(self, change: Callable[[], Awaitable[R]]) -> R:
        """`decided` of a change that waits for something before it is made."""

        async def run() -> R:
            while True:
                before, result = self.last_change, await change()
                # What others have made of it before need not be durable yet.
                number = None if self.last_change == before else self.last_change
                if await self.is_kept(number):
                    return result

        return await self.in_time(run())

    async def is_kept(self, change: int | None) -> bool:
        """Whether a change is durable, or every change so far; else others had changed the same.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        try:
            await self.durable(change)
        except KafkaError as error:
            if isinstance(error.__cause__, SupersededError):
                return False
            raise
        return True

    # Changing

    async def catch_up(self, deadline: float | None = None) -> None:
        """Know what was logged before this call, which a change may follow on another node.

        If the storage does not tell it, neither is the change logged, and says why.
        """

    def plan(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> TopicRecord:
        """The topic that `create` would make. Raises KafkaError.

        Its codes are INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
        POLICY_VIOLATION, INVALID_CONFIG and INVALID_REQUEST.
        """
        validate_creatable(name)
        self._claimed.ensure_free(name)
        if partitions < 1:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        _validate_total(partitions)
        return TopicRecord(
            id=new_topic_id(),
            name=name,
            partitions=partitions,
            configs=validate_topic_configs(configs),
            internal=internal,
        )

    def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> Topic:
        """Make a topic, blocking on the disk.

        Raises what `plan` raises, and KafkaError KAFKA_STORAGE_ERROR if its directories cannot be
        made, INVALID_TOPIC_EXCEPTION if one has the name of a directory that is not Kohort's.
        """
        self._revert()
        record = self.plan(name, partitions, configs, internal=internal)
        if self._to_remove:
            self.flush()
        self._logs.make_places(places_of(record))
        return self._commit_new(record)

    async def create_each(
        self, wanted: Sequence[NewTopic], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        """Make topics, each by itself; in the same order the topic, or what `create` would raise.

        The topics are durable. Other tasks run in between. A cancelled caller does not end the work
        early. Raises KafkaError as `change` does.
        """
        return await self.change(self._create_each(wanted), deadline)

    async def _create_each(self, wanted: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        if self._to_remove:
            try:
                await self.durable()
            except KafkaError as error:
                return [error for _ in wanted]
        await self._forgotten(each.name for each in wanted)
        slices = TimeSlices()
        planned: list[TopicRecord | KafkaError] = []
        try:
            for new in wanted:
                plan = self._planned(new)
                planned.append(plan)
                if isinstance(plan, TopicRecord):
                    self._claimed.claim(plan.name)
                await slices.give_way()
            refused = await asyncio.to_thread(
                self._logs.make_places_of_each,
                {plan.name: places_of(plan) for plan in planned if isinstance(plan, TopicRecord)},
            )
            made = [
                plan
                for plan in planned
                if isinstance(plan, TopicRecord) and plan.name not in refused
            ]
            outcomes: dict[str, Topic | KafkaError] = {**refused}
            for some in in_batches(made, topic_chars):
                outcomes |= await self._commit_each(some)
            return [
                plan if isinstance(plan, KafkaError) else outcomes[plan.name] for plan in planned
            ]
        finally:
            for plan in planned:
                if isinstance(plan, TopicRecord) and plan.name not in self._topics:
                    self._claimed.disclaim(plan.name)

    async def _forgotten(self, names: Iterable[str]) -> None:
        """Return when nothing of deleted topics with these names is forgotten any more."""
        for name in names:
            if name in self._forgetting:
                await asyncio.wait(self._forgetting.pop(name))

    def _planned(self, new: NewTopic) -> TopicRecord | KafkaError:
        """The topic as it would be created, or why it is not."""
        try:
            return self.plan(*new)
        except KafkaError as error:
            return error.with_traceback(None)  # which refers to the list that has the error

    async def _commit_each(self, made: Sequence[TopicRecord]) -> dict[str, Topic | KafkaError]:
        """`_commit_new` of topics whose records fit into one batch."""
        slices = TimeSlices()
        opened: list[tuple[TopicRecord, Topic]] = []
        outcomes: dict[str, Topic | KafkaError] = {}
        for record in made:
            try:
                opened.append((record, await self._logs.opened_in_slices(record, slices)))
            except OSError as error:
                self._logs.discard(places_of(record))
                outcomes[record.name] = storage_error(error)
            await slices.give_way()
        if not opened:
            return outcomes
        try:
            self._metadata.commit(*(record for record, _ in opened))
        except KafkaError as error:
            for record, _ in opened:
                self._logs.discard(places_of(record))
            return outcomes | {record.name: error for record, _ in opened}
        outcomes |= {record.name: self._added(topic) for record, topic in opened}
        try:
            await self.durable(self.last_change)
        except KafkaError as error:
            outcomes |= {record.name: error for record, _ in opened}
        return outcomes

    def _commit_new(self, record: TopicRecord) -> Topic:
        """Open the logs of a topic whose directories were made, and append its record."""
        try:
            topic = self._logs.opened(record)
            self._metadata.commit(record)
        except (KafkaError, OSError) as error:
            self._logs.discard(places_of(record))
            raise error if isinstance(error, KafkaError) else storage_error(error) from error
        return self._added(topic)

    def _added(self, topic: Topic) -> Topic:
        """Have a topic that this node made; the nodes that follow it log nothing."""
        self._add(topic)
        log_created(topic)
        return topic

    def delete(self, name: str) -> None:
        """Remove a topic; its records and its offsets go with the next `durable`.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        topic = self._existing(name)
        self._metadata.commit(TopicDeleted(topic.id))
        self._hide((topic,))
        log_deleted(topic)
        for _ in self._retire(topic):
            pass

    async def delete_each(self, names: Sequence[str]) -> dict[str, KafkaError]:
        """`delete` of many topics that exist; returns why those that are left were not deleted.

        The deletions are durable. To be run by `change`. Gives way to others while it works.
        """
        slices = TimeSlices()
        refused: dict[str, KafkaError] = {}
        for start in range(0, len(names), BATCH_RECORDS):
            topics = [self._existing(name) for name in names[start : start + BATCH_RECORDS]]
            try:
                self._metadata.commit(*(TopicDeleted(topic.id) for topic in topics))
                change = self.last_change
                self._hide(topics)
                for topic in topics:
                    log_deleted(topic)
                    for _ in self._retire(topic):
                        await slices.give_way()
                await self.durable(change)
            except KafkaError as error:
                refused |= {topic.name: error for topic in topics}
        return refused

    def _hide(self, topics: Iterable[Topic]) -> None:
        """Show deleted topics to nobody, in the turn in which the log has their deletion.

        A record of a change of such a topic would create it again.
        """
        self.responses.clear()
        self._version += 1
        for topic in topics:
            del self._topics[topic.name], self._names[topic.id]

    def _retire(self, topic: Topic) -> Iterator[None]:
        """Close the logs of a deleted topic one by one, as long as that is not taken back."""
        if topic.id in self._metadata.state.topics:
            return
        self._claimed.disclaim(topic.name)
        self._to_tell.add(topic.name)
        for log in topic.partitions:
            if topic.id in self._metadata.state.topics:
                return
            self._logs.retire(log.topic_partition)
            self._to_remove[log.topic_partition] = topic.id
            yield

    def plan_partitions(self, name: str, total: int) -> Topic:
        """The topic, if it can grow to `total` partitions. Raises as `add_partitions` does."""
        topic, current = self._existing(name), len(self._existing(name).partitions)
        if total == current:
            raise KafkaError(
                ErrorCode.invalid_partitions, (f"Topic already has {current} partition(s).")
            )
        if total < current:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                f"The topic {name} currently has {current} partition(s); {total} would "
                "not be an increase.",
            )
        _validate_total(total - current)
        return topic

    def add_partitions(self, name: str, total: int) -> Topic:
        """Grow a topic to `total` partitions. Raises KafkaError.

        Its codes are INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION and
        KAFKA_STORAGE_ERROR.
        """
        self._revert()
        topic = self.plan_partitions(name, total)
        self._logs.make_places(self._places_to_add(topic, total))
        return self._commit_growth(topic, total)

    async def grow(self, name: str, total: int) -> Topic:
        """`add_partitions`, with the disk waited for in another thread; the growth is durable.

        A cancelled caller does not end the work early.
        """
        (grown,) = await self.grow_each([Growth(name, total)])
        if isinstance(grown, KafkaError):
            raise fresh(grown)
        return grown

    async def grow_each(
        self, wanted: Sequence[Growth], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        """`grow` topics, each by itself; in the same order the topic, or what that would raise.

        No topic is named twice. Raises KafkaError as `change` does.
        """
        return await self.change(self._grow_each(wanted), deadline)

    async def change(self, work: Coroutine[Any, Any, R], deadline: float | None = None) -> R:
        """Run a change after all others. A cancelled caller does not end it early.

        Raises KafkaError REQUEST_TIMED_OUT as `in_time` does; a change that has not begun by then
        is not made.
        """

        async def run() -> R:
            try:
                async with self._changing:
                    await self._reverted()
                    self.ensure_in_time(deadline)
                    return await work
            finally:
                work.close()  # if it was cancelled before it began

        task = asyncio.create_task(run())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await self.in_time(asyncio.shield(task), deadline)

    def ensure_in_time(self, deadline: float | None) -> None:
        """Raise KafkaError REQUEST_TIMED_OUT if the outcome would be awaited no more."""

    async def in_time(self, work: Awaitable[R], deadline: float | None = None) -> R:
        """The outcome of a change. A server alone, which waits for its own disk, has no limit.

        One of several raises KafkaError REQUEST_TIMED_OUT at `deadline`, by the clock of the event
        loop, or after 30 s: the change may have been made, or may yet be.
        """
        _ = deadline
        return await work

    async def _grow_each(self, wanted: Sequence[Growth]) -> list[Topic | KafkaError]:
        slices = TimeSlices()
        outcomes: dict[str, Topic | KafkaError] = {}
        places: dict[str, Mapping[TopicPartition, UUID]] = {}
        for name, total in wanted:
            try:
                places[name] = self._places_to_add(self.plan_partitions(name, total), total)
            except KafkaError as error:
                outcomes[name] = error.with_traceback(None)  # which refers to the list
            await slices.give_way()
        outcomes |= await asyncio.to_thread(self._logs.make_places_of_each, places)
        made = [each for each in wanted if each.name not in outcomes]
        for some in in_batches(made, self._growth_chars):
            outcomes |= await self._commit_growths(some)
        return [outcomes[name] for name, _ in wanted]

    def _growth_chars(self, growth: Growth) -> int:
        topic = self.get(growth.name)
        return len(growth.name) if topic is None else topic_chars(topic.record())

    async def _commit_growths(self, made: Sequence[Growth]) -> dict[str, Topic | KafkaError]:
        """Have topics grow whose directories were made, and whose records fit into one batch."""
        slices = TimeSlices()
        outcomes: dict[str, Topic | KafkaError] = {}
        for name, total in made:
            try:
                topic = self.plan_partitions(name, total)
                places, effective = self._places_to_add(topic, total), topic.effective
                await self._logs.open_in_slices(places, effective, slices)
            except (KafkaError, OSError) as error:
                outcomes[name] = self._not_grown(name, total, error)
            await slices.give_way()
        grown: list[tuple[Topic, int, tuple[Log, ...]]] = []
        for name, total in made:
            if name in outcomes:
                continue
            try:
                topic = self.plan_partitions(name, total)  # as it is by now
                places = self._places_to_add(topic, total)
                grown.append((topic, total, tuple(self._logs.open(places, topic.effective))))
            except (KafkaError, OSError) as error:
                outcomes[name] = self._not_grown(name, total, error)
        if not grown:
            return outcomes
        try:
            self._metadata.commit(*(topic.record(partitions=total) for topic, total, _ in grown))
        except KafkaError as error:
            for topic, total, _ in grown:
                outcomes[topic.name] = self._not_grown(topic.name, total, error)
            return outcomes
        for topic, _, added in grown:
            settings = self._logs.settings(topic.effective)
            for log in added:
                log.configure(settings)  # the topic may have been altered meanwhile
            self._grown(topic, added)
            log_grown(topic)
            outcomes[topic.name] = topic
        try:
            await self.durable(self.last_change)
        except KafkaError as error:
            outcomes |= {topic.name: error for topic, _, _ in grown}
        return outcomes

    def _not_grown(self, name: str, total: int, error: KafkaError | OSError) -> KafkaError:
        """Discard what was made for a growth; the error for its client."""
        topic = self.get(name)
        if topic is not None:
            self._logs.discard(self._places_to_add(topic, total))
        if isinstance(error, OSError):
            return storage_error(error)
        return error.with_traceback(None)  # which refers to the list that has the error

    def _places_to_add(self, topic: Topic, total: int) -> dict[TopicPartition, UUID]:
        return places_of(topic.record(partitions=total), len(topic.partitions))

    def _commit_growth(self, topic: Topic, total: int) -> Topic:
        grown = topic.record(partitions=total)
        try:
            added = tuple(self._logs.open(self._places_to_add(topic, total), topic.effective))
            self._metadata.commit(grown)
        except (KafkaError, OSError) as error:
            self._logs.discard(self._places_to_add(topic, total))
            raise error if isinstance(error, KafkaError) else storage_error(error) from error
        self._grown(topic, added)
        log_grown(topic)
        return topic

    def _grown(self, topic: Topic, added: tuple[Log, ...]) -> None:
        self.responses.clear()
        self._version += 1
        topic.partitions += added

    def alter_configs(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Replace a topic's own configs, at once for its open logs. Raises KafkaError.

        Its codes are INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION and KAFKA_STORAGE_ERROR.
        """
        topic = self._existing(name)
        valid = validate_topic_configs(configs)
        self._metadata.commit(topic.record(configs=valid))
        self.responses.clear()
        self._configure(topic, valid)
        return topic

    async def alter(self, name: str, configs: Callable[[Topic], Mapping[str, str]]) -> None:
        """Replace a topic's own configs by what `configs` returns of it. Raises as that does.

        It raises as `alter_configs` does, too; the change need not be durable yet.
        """
        self.alter_configs(name, configs(self._existing(name)))

    def configs_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """What is set on a resource that is no topic."""
        return self._configuration.configs_of(kind, name)

    def configured(self, kind: ResourceType) -> Iterable[str]:
        """The names of resources of this kind on which something is set."""
        return self._configuration.configured(kind)

    def set_configs(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Replace all configs of a resource that is no topic; they were validated.

        Those of brokers act at once, and for topics once they are `reconfigured`. Raises KafkaError
        KAFKA_STORAGE_ERROR.
        """
        records = self._configuration.set_configs(kind, name, configs)
        if records:
            self._metadata.commit(*records)
            self._apply_broker_configs()

    @property
    def quotas(self) -> QuotaTable:
        """The quotas of clients, as they are at any time."""
        return self._metadata.state.quotas

    def set_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace all quotas of some entities, at once: all or none; they were validated.

        Their records are a batch (`in_batches`). Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        records = self._quota_control.alter_quotas(quotas)
        if records:
            self._metadata.commit(*records)

    @property
    def acls(self) -> Acls:
        """The access control lists; requests change them by the methods below."""
        return self._metadata.state.acls

    def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add those entries that do not exist; their records are a batch (`in_batches`).

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        self._commit_acls(self._acl_control.create_acls(bindings))

    def delete_acls(self, ids: Iterable[UUID]) -> None:
        """Remove entries, at most `BATCH_RECORDS`. Raises as `create_acls` does."""
        self._commit_acls(self._acl_control.delete_acls(ids))

    def _commit_acls(self, records: Sequence[AclRecord | AclRemoved]) -> None:
        if records:
            self._metadata.commit(*records)
            self._tell_acls_changed()

    def _tell_acls_changed(self) -> None:
        for tell in self.on_acls_changed:
            tell()

    @property
    def scram_users(self) -> ScramUsers:
        return self._metadata.state.scram_users

    def set_scram_credentials(
        self, credentials: Mapping[tuple[str, ScramMechanism], ScramCredential | None]
    ) -> None:
        """Set credentials of users, or with None remove them: all or none.

        They must fit into a segment of the metadata log. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        self._metadata.commit(*self._scram_control.alter_credentials(credentials))

    def _apply_broker_configs(self) -> None:
        of_all, of_one = (
            self.configs_of(ResourceType.BROKER, name)
            for name in ("", str(self._config["node.id"]))
        )
        self._config.set_dynamic(of_all, of_one)

    def _reconfigure(self) -> None:
        """Have all topics act by the configs of the broker, in slices."""
        self._logs.broker_configs_changed()
        self._reconfiguring = asyncio.create_task(self._configure_each())

    async def _configure_each(self) -> None:
        slices = TimeSlices()
        for topic in tuple(self._topics.values()):
            self._configure(topic, topic.configs)
            await slices.give_way()

    async def reconfigured(self) -> None:
        """Return when all topics act by the configs of the broker."""
        if self._reconfiguring is not None:
            await asyncio.shield(self._reconfiguring)

    def _configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        topic.configs = configs
        topic.effective = self._logs.effective(configs)
        settings = self._logs.settings(topic.effective)
        for log in topic.partitions:
            log.configure(settings)

    def _existing(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    # Taking changes back

    def _taken_back(self, ids: Iterable[UUID]) -> None:
        """Have topics as the metadata says again, after changes that did not reach the disk.

        What was created or grown is gone at once, what was deleted is back in slices: a topic may
        have 10,000 logs.
        """
        self.responses.clear()
        for topic_id in ids:
            record, topic = self._metadata.state.topics.get(topic_id), self.by_id(topic_id)
            if record is None:
                if topic is not None:
                    self._withdraw(topic)
            elif topic is None:
                self._restore(record)
            else:
                self._withdraw_partitions(topic, record.partitions)
                self._configure(topic, record.configs)
        self._apply_broker_configs()
        self._tell_acls_changed()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._revert()
        else:
            task = loop.create_task(self._reverted())
            self._changes.add(task)
            task.add_done_callback(self._changes.discard)

    async def _reverted(self) -> None:
        """Return when all topics are as the metadata says."""
        slices = TimeSlices()
        while self._to_revert:
            self._to_revert.popleft()()
            await slices.give_way()

    def _revert(self) -> None:
        """`_reverted`, blocking until it is done."""
        while self._to_revert:
            self._to_revert.popleft()()

    def _withdraw(self, topic: Topic) -> None:
        self._hide((topic,))
        self._withdraw_partitions(topic, 0)
        self._to_revert.append(partial(self._claimed.disclaim, topic.name))

    def _withdraw_partitions(self, topic: Topic, left: int) -> None:
        gone, topic.partitions = topic.partitions[left:], topic.partitions[:left]
        self._version += 1
        self._to_revert += (partial(self._logs.withdraw, log, topic.id) for log in gone)

    def _restore(self, record: TopicRecord) -> None:
        self._claimed.claim(record.name)
        self._to_tell.discard(record.name)
        settings = self._logs.settings(self._logs.effective(record.configs))
        for partition, topic_id in places_of(record).items():
            self._to_remove.pop(partition, None)
            self._to_revert.append(
                partial(self._logs.open_or_refuse, partition, topic_id, settings)
            )
        self._to_revert.append(partial(self._add_restored, record.id))

    def _add_restored(self, topic_id: UUID) -> None:
        """Have a topic again as it is now, unless it was deleted meanwhile."""
        record = self._metadata.state.topics.get(topic_id)
        if record is not None and topic_id not in self._names:
            self._add(self._logs.opened(record))

    # Logs

    def _reopened(self, log: Log) -> None:
        topic, index = self._topics.get(log.topic_partition.topic), log.topic_partition.partition
        if log.topic_partition == METADATA:
            self._metadata.log_reopened(log)
        elif topic is not None:
            former = topic.partitions
            topic.partitions = (*former[:index], log, *former[index + 1 :])
            log.configure(self._logs.settings(topic.effective))
            self.responses.clear()

    def _add(self, topic: Topic) -> None:
        self.responses.clear()
        self._version += 1
        self._created_version = self._version
        self._topics[topic.name] = topic
        self._names[topic.id] = topic.name
        self._claimed.claim(topic.name)

    def _remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove a partition of a deleted topic, unless somebody else has done it."""
        if self._to_remove.get(partition) == topic_id:
            del self._to_remove[partition]
            self._logs.remove(partition, topic_id)

    async def _take_producer_ids(self) -> Iterable[int]:
        return await self.allocate_producer_ids()

    async def allocate_producer_ids(self) -> range:
        """Ids that are given to nobody else; their reservation is durable. Raises KafkaError."""
        return await self.decided(self.reserve_producer_ids)

    def reserve_producer_ids(self) -> range:
        """`allocate_producer_ids`, whose reservation need not be durable yet."""
        ids, record = self._producer_id_control.next_block()
        self._metadata.commit(record)
        return ids


def topic_chars(topic: TopicRecord) -> int:
    """Characters of a topic's record, for `in_batches`."""
    return len(topic.name) + sum(len(name) + len(value) for name, value in topic.configs.items())


def unknown_topic(name: str) -> KafkaError:
    """The error of a change of a topic that does not exist."""
    return KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def log_created(topic: Topic) -> None:
    """Log that this node has created a topic."""
    _log.info("created a topic", extra=fields(topic=topic.name, partitions=len(topic.partitions)))


def log_grown(topic: Topic) -> None:
    """Log that this node has added partitions to a topic."""
    _log.info(
        "added partitions to a topic",
        extra=fields(topic=topic.name, partitions=len(topic.partitions)),
    )


def log_deleted(topic: Topic) -> None:
    """Log that this node has deleted a topic."""
    _log.info("deleted a topic", extra=fields(topic=topic.name))


def too_many_partitions(added: int) -> KafkaError | None:
    """Why one request does not add so many partitions in all; None if it may."""
    if added <= MAX_PARTITIONS_PER_REQUEST:
        return None
    return KafkaError(
        ErrorCode.policy_violation, "Excessively large number of partitions per request."
    )


def _validate_total(partitions: int) -> None:
    if (refusal := too_many_partitions(partitions)) is not None:
        raise fresh(refusal)
