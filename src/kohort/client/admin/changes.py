"""Errors of changes without a response: the change may have been made.

A request whose connection breaks, or that times out, may have been executed. If it is repeated, the
response is about the repetition: GROUP_ID_NOT_FOUND after the first request deleted the group.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kohort.client.errors import BrokerUnreachableError, GaveUpError
from kohort.errors import KafkaError


def may_be_made(remedy: str) -> str:
    """The advice after a change without response: `remedy` shows whether it was made."""
    return f"the change may have been made: {remedy} before you repeat it"


@contextmanager
def changing(remedy: str) -> Iterator[None]:
    """A block that sends one change, once: errors without a response have the advice."""
    try:
        yield
    except BrokerUnreachableError as error:
        raise type(error)(f"{error}; {may_be_made(remedy)}") from error


def repeated(outcome: Any, remedy: str) -> Any:
    """The outcome of a repeated change, the first without response: errors get the advice.

    A mapping has one outcome per key.
    """
    advice = may_be_made(remedy)
    match outcome:
        case Mapping():
            return {key: repeated(value, remedy) for key, value in outcome.items()}
        case KafkaError():
            return KafkaError(outcome.code, f"{outcome.message}; {advice}".removeprefix("; "))
        case GaveUpError():
            return GaveUpError(f"{outcome}; {advice}", outcome.last)
        case BrokerUnreachableError():
            return type(outcome)(f"{outcome}; {advice}")
    return outcome
