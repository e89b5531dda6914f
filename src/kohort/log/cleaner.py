"""Cleaning many logs: retention and compaction, one log after the other."""

import asyncio
import logging
from collections.abc import Iterable

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.types import Timestamp

logger = logging.getLogger("kohort.log")

_ENDED = (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)


async def clean_all(logs: Iterable[Log], now: Timestamp) -> None:
    """`retain` and `compact` each of `logs`, giving way to others in between."""
    for log in tuple(logs):
        try:
            deleted = log.retain(now)
            if deleted:
                logger.info("deleted %d segments of %s", deleted, log.topic_partition)
            if await log.compact(now):
                logger.info("compacted %s", log.topic_partition)
        except (OSError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code in _ENDED:
                continue  # deleted or closed since the pass began
            logger.error("cleaning %s failed: %s", log.topic_partition, error)
        await asyncio.sleep(0)
