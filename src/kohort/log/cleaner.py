"""Cleaning many logs: retention, and beside it compaction, one log after the other."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogMaintenance
from kohort.types import Timestamp
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.log")

_ENDED = (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)


async def retain_all(logs: Iterable[LogMaintenance], now: Timestamp) -> None:
    """`retain` each of `logs`, giving way to others in between."""

    async def retain(log: LogMaintenance) -> None:
        if deleted := await log.retain(now):
            logger.info("deleted %d segments of %s", deleted, log.topic_partition)

    await _for_each(logs, retain)


async def compact_all(logs: Iterable[LogMaintenance], now: Timestamp) -> None:
    """`compact` each of `logs`, giving way to others in between."""

    async def compact(log: LogMaintenance) -> None:
        if await log.compact(now):
            logger.info("compacted %s", log.topic_partition)

    await _for_each(logs, compact)


async def _for_each(
    logs: Iterable[LogMaintenance], clean: Callable[[LogMaintenance], Awaitable[None]]
) -> None:
    slices = TimeSlices()
    for log in tuple(logs):
        try:
            await clean(log)
        except (OSError, KafkaError) as error:
            # One that was deleted or closed since the pass began needs no cleaning.
            if not isinstance(error, KafkaError) or error.code not in _ENDED:
                logger.error("cleaning %s failed: %s", log.topic_partition, error)
        await slices.give_way()
