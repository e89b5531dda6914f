"""Timers as values: a shard decides on them, the runtime keeps them and brings them back."""

from typing import Generic, NamedTuple, TypeVar

from kohort.types import Instant

KeyT = TypeVar("KeyT")


class Timer(NamedTuple, Generic[KeyT]):
    """Set, or move, the timer `key` to `deadline`."""

    key: KeyT
    deadline: Instant


class Cancel(NamedTuple, Generic[KeyT]):
    """Forget the timer `key`, if it is set."""

    key: KeyT
