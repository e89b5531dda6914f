"""A committed offset, as clients write and read it (Kafka's OffsetAndMetadata)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Final

from kohort.client.properties import explains_arguments
from kohort.types import TopicPartition

_INT64_MAX: Final = 2**63 - 1


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset: that of the next record for the group."""

    offset: int
    leader_epoch: int = -1
    """-1: not known."""
    metadata: str = ""


def committable(tp: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """What to send for `given`. Raises TypeError, and ValueError for what no broker can store."""
    validate_partitions((tp,))
    if not 0 <= tp.partition < 2**31:
        raise ValueError(f"{tp}: a partition is a whole number from 0 on")
    asked = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(offset=given)
    try:
        found = replace(asked, offset=index(asked.offset), leader_epoch=index(asked.leader_epoch))
    except TypeError:
        raise ValueError(f"{tp}: {given!r} is not an offset: a whole number from 0 on") from None
    if isinstance(asked.offset, bool) or not 0 <= found.offset <= _INT64_MAX:
        raise ValueError(f"{tp}: offset {given!r} is not a whole number from 0 on")
    if not -1 <= found.leader_epoch < 2**31:
        raise ValueError(f"{tp}: leader epoch {found.leader_epoch} is not -1 or an epoch from 0 on")
    try:
        found.metadata.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ValueError(
            f"{tp}: metadata {found.metadata!r} is not text that can be sent"
        ) from None
    return found


def validate_offsets(offsets: object) -> None:
    """Raise TypeError for what is no mapping of partitions."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"offsets: a mapping of TopicPartition to an offset expected, not {offsets!r}"
        )
    validate_partitions(offsets)


def validate_names(what: str, names: object) -> None:
    """Raise TypeError for one name where a list of names is needed."""
    if isinstance(names, str):
        raise TypeError(f"{what}: a list of names expected; for the one, write [{names!r}]")


def validate_partitions(partitions: object) -> None:
    """Raise TypeError for what are no partitions."""
    if isinstance(partitions, TopicPartition) or not isinstance(partitions, Iterable):
        raise TypeError(f"a list of partitions expected, not {partitions!r}")
    for each in partitions:
        if not (
            isinstance(each, TopicPartition)
            and isinstance(each.topic, str)
            and type(each.partition) is int
        ):
            raise TypeError(f"{each!r}: a TopicPartition expected, as TopicPartition('orders', 0)")
