"""Queries of a reader to the cluster: existing partitions, and their first and last offsets.

Every query runs on the loop of `background`, is bounded in time by the client, and raises
KohortError.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from kohort.client.backoff import retrying
from kohort.client.cluster import EARLIEST as FIRST
from kohort.client.cluster import LATEST as END
from kohort.client.cluster import Cluster, Metadata, Offset, list_offsets
from kohort.client.errors import BrokerUnreachableError
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError, unless_error
from kohort.spark import background, bootstrap_check
from kohort.spark.options import Bound, ReadOptions, TopicSubscription
from kohort.spark.positions import EARLIEST, Positions, TopicIds, topic_id, validate_partitions
from kohort.spark.ranges import OffsetRange, ranges
from kohort.types import TopicPartition

T = TypeVar("T")

logger: Final = logging.getLogger("kohort.spark")

_ADVICE: Final = {
    ErrorCode.topic_authorization_failed: "; the query's user needs the permissions Describe and"
    " Read of it"
}
EXISTENCE_CHECK_MS: Final = 5_000
"""Time limit of an offset query, after which the reader checks that the partitions exist (ms)."""

Existing: TypeAlias = Mapping[TopicPartition, str | None]
"""Sorted partitions, each with the id of its topic; None if the brokers do not return ids."""


class OffsetQueries:
    """Offset queries of one reader, for plain functions."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Existing:
        """The existing partitions of the subscription; missing topics have none."""
        return self._run(self.existing)

    def validate_deleted(self, topics: Collection[str]) -> None:
        """Raise KafkaError if these topics have an error other than having been deleted.

        A pattern matches only topics that the user may describe. So a topic whose permission was
        withdrawn is missing from `partitions`, as if it had been deleted.
        """
        if topics:
            self._run(lambda: self._metadata(tuple(topics)))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first offset of each partition, without deleted ones."""
        requested = tuple(partitions)
        return self._run(lambda: self._offsets_of_existing(requested, FIRST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end of each partition, without deleted ones.

        Under read_committed it is before the first open transaction.
        """
        requested = tuple(partitions)
        return self._run(lambda: self._offsets_of_existing(requested, END))

    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Positions:
        """The offsets of `bound`.

        Raises ConfigError if they do not match the existing partitions.
        """
        requested = tuple(partitions)
        return self._run(lambda: self.resolved(bound, requested))

    def ranges(self, start: Positions, end: Positions, partitions: Existing) -> list[OffsetRange]:
        """One for each partition that has something to read."""
        return ranges(start, end, ids_of(partitions))

    def _run(self, query: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the query with up to `fetchOffset.numRetries` attempts.

        ConfigError and ConnectionsRefusedError are not retried.
        """
        for _ in range(self.options.offset_attempts - 1):
            try:
                return background.run(query())
            except (ConfigError, bootstrap_check.ConnectionsRefusedError):
                raise
            except KohortError as error:
                logger.warning("offset query failed, retrying: %s", error)
                time.sleep(self.options.offset_retry_interval_ms / 1000)
        return background.run(query())

    async def _cluster(self) -> Cluster:
        return await background.cluster(self.options.kafka)

    async def existing(self) -> Existing:
        """`partitions`, on the loop.

        Only a missing topic is left out. Raises KafkaError for another persistent error of a topic,
        such as TOPIC_AUTHORIZATION_FAILED, and GaveUpError.
        """
        subscription = self.options.subscription
        names = subscription.topics or tuple({tp.topic for tp in subscription.partitions}) or None
        return await self._metadata(names)

    async def _metadata(self, names: tuple[str, ...] | None) -> Existing:
        cluster = await self._cluster()
        give_up_at = time.monotonic() + bootstrap_check.REFUSED_S

        async def attempt() -> Existing:
            try:
                metadata = await cluster.request_metadata(names)
            except BrokerUnreachableError as error:
                # A query that has reached its brokers waits for their return.
                if cluster.brokers or not error.is_refused or time.monotonic() < give_up_at:
                    raise
                raise bootstrap_check.ConnectionsRefusedError(str(error)) from error
            return dict(sorted(_subscribed(metadata, self.options.subscription)))

        return await retrying(
            attempt,
            operation="metadata of the topics",
            timeout_ms=cluster.config.default_api_timeout_ms,
            backoff=cluster.backoff(),
        )

    async def resolved(
        self, bound: Bound, partitions: Collection[TopicPartition], *, of_all: bool = True
    ) -> Positions:
        """`resolve`, on the loop; with `of_all`, `bound` must name no other partitions."""
        if bound.everywhere is not None:
            return await self._offsets(
                dict.fromkeys(partitions, FIRST if bound.everywhere == EARLIEST else END)
            )
        if bound.offsets is not None:
            offsets = _option_values(bound.option, bound.offsets, partitions, of_all=of_all)
            special = {
                tp: FIRST if offset == EARLIEST else END
                for tp, offset in offsets.items()
                if offset < 0
            }
            return offsets | await self._offsets(special)
        if bound.timestamps is not None:
            return await self._by_time(
                bound, _option_values(bound.option, bound.timestamps, partitions, of_all=of_all)
            )
        return await self._by_time(bound, dict.fromkeys(partitions, bound.timestamp or 0))

    async def _by_time(self, bound: Bound, times: Mapping[TopicPartition, int]) -> Positions:
        offsets = await self._offsets(times)
        too_young = sorted(tp for tp, offset in offsets.items() if offset < 0)
        if too_young:
            validate_match(self.options, bound, too_young[0], times[too_young[0]])
        return offsets | await self._offsets(dict.fromkeys(too_young, END))

    async def _offsets_of_existing(
        self, partitions: Iterable[TopicPartition], when: int
    ) -> Positions:
        times = dict.fromkeys(partitions, when)
        if not times:
            return {}
        outcomes = await list_offsets(
            await self._cluster(), times, self.options.isolation, timeout_ms=EXISTENCE_CHECK_MS
        )
        offsets = {
            tp: outcome.offset for tp, outcome in outcomes.items() if isinstance(outcome, Offset)
        }
        unresolved = times.keys() - offsets.keys()
        if unresolved:
            unresolved &= (await self.existing()).keys()
            offsets |= await self._offsets(dict.fromkeys(unresolved, when))
        return offsets

    async def _offsets(self, times: Mapping[TopicPartition, int]) -> Positions:
        if not times:
            return {}
        outcomes = await list_offsets(await self._cluster(), times, self.options.isolation)
        return {tp: unless_error(outcome).offset for tp, outcome in outcomes.items()}


def validate_match(options: ReadOptions, bound: Bound, tp: TopicPartition, time: int) -> None:
    """Raise ConfigError if a read may not begin at the end of `tp`, without a later record."""
    if bound.option.startswith("starting") and not options.latest_if_no_match:
        raise ConfigError(
            f"option {bound.option}: {tp} has no record at or after {time}; "
            "set startingOffsetsByTimestampStrategy to latest to start at the end of such "
            "partitions"
        )


def _option_values(
    option: str, values: Positions, partitions: Collection[TopicPartition], *, of_all: bool
) -> Positions:
    """The value of an option for each of `partitions`. Raises ConfigError."""
    validate_partitions(option, values if of_all else values.keys() & set(partitions), partitions)
    return {tp: values[tp] for tp in partitions}


def _subscribed(
    metadata: Metadata, subscription: TopicSubscription
) -> Iterable[tuple[TopicPartition, str | None]]:
    for name, topic in metadata.topics.items():
        if subscription.pattern is not None and (
            topic.is_internal or not re.fullmatch(subscription.pattern, name)
        ):
            continue
        if topic.error not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
            raise KafkaError(topic.error, f"topic {name}{_ADVICE.get(topic.error, '')}")
        for partition in topic.partitions:
            tp = TopicPartition(name, partition.index)
            if not subscription.partitions or tp in subscription.partitions:
                yield tp, topic_id(topic.id)


def ids_of(existing: Existing) -> TopicIds:
    """The known ids of the existing topics."""
    return {tp.topic: topic_id for tp, topic_id in existing.items() if topic_id is not None}


def validate_named(options: ReadOptions, existing: Collection[TopicPartition]) -> None:
    """Raise ConfigError for topics and partitions in options that do not exist."""
    subscription = options.subscription
    if missing := sorted(set(subscription.topics) - {tp.topic for tp in existing}):
        raise ConfigError(f"option subscribe: topic {', '.join(missing)} does not exist")
    if unknown := [tp for tp in subscription.partitions if tp not in set(existing)]:
        topic, partition = unknown[0]
        raise ConfigError(f"option assign: partition {partition} of topic {topic} does not exist")
