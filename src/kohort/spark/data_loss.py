"""Records that were to be read and are gone.

`failOnDataLoss` says whether that ends the query, or is a warning of the logger `kohort.spark`.
"""

import logging
from typing import Final

from kohort.errors import KohortError
from kohort.types import TopicPartition

logger: Final = logging.getLogger("kohort.spark")

ADVICE: Final = "; set failOnDataLoss to false to go on without it"
GONE: Final = "is gone"
AGAIN: Final = "was deleted and created again"


class DataLossError(KohortError):
    """Records that were to be read are gone; `failOnDataLoss` says whether that ends the query."""


def raise_or_warn(what: str, *, fail: bool) -> None:
    """Raise DataLossError, or tell the loss in the log, as `failOnDataLoss` says."""
    if fail:
        raise DataLossError(what + ADVICE)
    logger.warning("data loss: %s", what)


def span(start: int, end: int) -> str:
    """The offsets in [start, end), for people."""
    return f"offsets from {start} to below {end}"


def gone(tp: TopicPartition, how: str, start: int, end: int) -> str:
    """The message for a read of [start, end) from a partition that is not there any more.

    `how` is GONE or AGAIN.
    """
    return f"{tp} {how}, with what was to be read of it: {span(start, end)}"


def misplaced(tp: TopicPartition, start: int, earliest: int, end: int) -> str:
    """The message for a read of [start, end) where the log, from `earliest` on, lacks `start`."""
    if start < earliest:
        gone = span(start, min(earliest, end))
        now = f"its first record has offset {earliest} now: retention or a deletion took {gone}"
    else:
        now = "it ends before that now: its log was cut, or the topic was deleted and created again"
    return f"{tp} was to be read from offset {start}, {now}"
