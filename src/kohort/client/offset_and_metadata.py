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


def committable(tp: TopicPartition, offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """`offset` after validation, with its metadata. Raises TypeError and ValueError."""
    validate_partitions((tp,))
    if not 0 <= tp.partition < 2**31:
        raise ValueError(f"{tp}: a partition is a whole number from 0 on")
    requested = (
        offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset=offset)
    )
    try:
        converted = replace(
            requested, offset=index(requested.offset), leader_epoch=index(requested.leader_epoch)
        )
    except TypeError:
        raise ValueError(
            f"{tp}: {requested.offset!r} is not an offset: a whole number from 0 on"
        ) from None
    if isinstance(requested.offset, bool) or not 0 <= converted.offset <= _INT64_MAX:
        raise ValueError(f"{tp}: offset {requested.offset!r} is not a whole number from 0 on")
    if not -1 <= converted.leader_epoch < 2**31:
        raise ValueError(
            f"{tp}: leader epoch {converted.leader_epoch} is not -1 or an epoch from 0 on"
        )
    try:
        converted.metadata.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ValueError(
            f"{tp}: metadata {converted.metadata!r} is not text that can be sent"
        ) from None
    return converted


def validate_offsets(offsets: object) -> None:
    """Raise TypeError for what is no mapping of partitions."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"offsets: a mapping of TopicPartition to an offset expected, not {offsets!r}"
        )
    validate_partitions(offsets)


def validate_names(option: str, names: object) -> None:
    """Raise TypeError for one name where a list of names is needed."""
    if isinstance(names, str):
        raise TypeError(f"{option}: a list of names expected; for the one, write [{names!r}]")


def validate_partitions(partitions: object) -> None:
    """Raise TypeError for what are no partitions."""
    if isinstance(partitions, TopicPartition) or not isinstance(partitions, Iterable):
        raise TypeError(f"a list of partitions expected, not {partitions!r}")
    for item in partitions:
        if not (
            isinstance(item, TopicPartition)
            and isinstance(item.topic, str)
            and type(item.partition) is int
        ):
            raise TypeError(f"{item!r}: a TopicPartition expected, as TopicPartition('orders', 0)")
