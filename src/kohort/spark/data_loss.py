"""Records that were deleted before they were read.

With `failOnDataLoss` this ends the query, without it the logger `kohort.spark` warns.
"""

import logging
from typing import Final

from kohort.errors import KohortError
from kohort.types import TopicPartition
from kohort.util.text import offset_span

logger: Final = logging.getLogger("kohort.spark")

ADVICE: Final = "; set failOnDataLoss to false to go on without it"
GONE: Final = "is gone"
AGAIN: Final = "was deleted and created again"


class DataLossError(KohortError):
    """Records were deleted before they were read, and `failOnDataLoss` is true."""


def raise_or_warn(loss: str, *, fail: bool) -> None:
    """Raise DataLossError if `fail`, otherwise log a warning."""
    if fail:
        raise DataLossError(loss + ADVICE)
    logger.warning("data loss: %s", loss)


def deleted(tp: TopicPartition, how: str, start: int, end: int) -> str:
    """The message for a read of [start, end) from a deleted or recreated partition.

    `how` is GONE or AGAIN.
    """
    return f"{tp} {how}, with what was to be read of it: {offset_span(start, end)}"


def out_of_range(tp: TopicPartition, start: int, earliest: int, end: int) -> str:
    """The message for a read of [start, end) where the log, from `earliest` on, lacks `start`."""
    if start < earliest:
        lost = offset_span(start, min(earliest, end))
        now = f"its first record has offset {earliest} now: retention or a deletion took {lost}"
    else:
        now = "it ends before that now: its log was cut, or the topic was deleted and created again"
    return f"{tp} was to be read from offset {start}, {now}"
