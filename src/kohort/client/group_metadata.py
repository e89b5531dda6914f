"""The group in whose name a transaction commits offsets (Kafka's ConsumerGroupMetadata, KIP-447).

The coordinator of the group fences by it: offsets of a member that the group has removed, or of an
older generation, abort the transaction. A group without member and generation is never fenced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata, committable, validate_offsets
from kohort.client.properties import explains_arguments
from kohort.types import TopicPartition

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A group, and the member and generation that commit; by default none, as for a `Consumer`."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.group_id, str) or not self.group_id:
            raise ValueError(f"group_id {self.group_id!r}: a name is needed")

    def to_commit(
        self, offsets: Offsets
    ) -> "tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]":
        """Itself, and the offsets as they are sent.

        Raises ValueError for what is no offset, TypeError for what is no mapping of partitions.
        """
        validate_offsets(offsets)
        return self, {tp: committable(tp, offset) for tp, offset in offsets.items()}

    def topic_ids(self, _partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, UUID]:
        """None: it is not known of which topics the offsets are."""
        return {}


@runtime_checkable
class OffsetOwner(Protocol):
    """Who commits offsets in a transaction: a `Generation`, a `Consumer`, or `GroupMetadata`."""

    def to_commit(
        self, offsets: Offsets
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """The group as of now, and the offsets as they are sent.

        Raises ValueError for what is no offset, GenerationEndedError for a partition that is no
        longer the member's.
        """
        ...

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, UUID]:
        """The id of the topic of each partition as it was read, as far as it is known.

        A transaction with offsets of a topic that has another id by now is aborted.
        """
        ...
