"""Retries without a time limit: an outage of the brokers ends no membership."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kohort.client.backoff import retrying
from kohort.client.errors import GaveUpError, is_retriable
from kohort.client.group.context import MemberContext
from kohort.errors import ErrorCode, KafkaError

T = TypeVar("T")
_OF_AN_OLD_EPOCH: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch})
"""The member has another epoch soon, or is fenced, which ends the attempts."""


async def retry_until_success(
    context: MemberContext,
    attempt: Callable[[], Awaitable[T]],
    *,
    operation: str,
    advice: str = "check that the brokers are up and can be reached from here",
) -> T:
    """Attempt until one succeeds; an `unavailable` event follows each `retry_timeout_ms`.

    Raises the first error that is not retriable.
    """
    backoff = context.cluster.backoff()
    while True:
        try:
            return await retrying(
                attempt,
                operation=operation,
                timeout_ms=context.config.retry_timeout_ms,
                backoff=backoff,
                advice=f"retrying; {advice}",
                retriable=_is_retriable,
            )
        except GaveUpError as error:
            context.events.emit_event("unavailable", str(error))


def _is_retriable(error: BaseException) -> bool:
    """Whether to try again, even if a topic seems deleted: the topic check finds that out."""
    stale = isinstance(error, KafkaError) and error.code in _OF_AN_OLD_EPOCH
    return stale or is_retriable(error) or isinstance(error, GaveUpError)
