"""The places of partitions: which there are, and for which topics they were made."""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from kohort.errors import KohortError
from kohort.types import TopicPartition


class NameTakenError(KohortError):
    """A new partition's directory has the name of one that Kohort did not make."""

    def __init__(self, partition: TopicPartition, path: str) -> None:
        super().__init__(
            f"{path} has the name of a partition, and Kohort did not make it. Move it out of the "
            "data directory, or choose another name for the topic."
        )
        self.partition = partition


class StorageIdentity(Protocol):
    """Which cluster a `LogDirectory` belongs to, and which version of Kohort served from it."""

    @property
    def cluster_id(self) -> str | None:
        """The id that the directory was made with, None if it has none yet."""
        ...

    @property
    def written_by(self) -> str:
        """The version of Kohort that last served from the directory, as far as is known."""
        ...

    def settle(self, cluster_id: str) -> None:
        """State durably that everything here is in the current format. Raises OSError."""
        ...


class PartitionDirectories(StorageIdentity, Protocol):
    """Which partitions have a place in a directory, and for which topics they were made."""

    @property
    def is_case_insensitive(self) -> bool:
        """Whether names that differ only in case are one name."""
        ...

    def marks(self) -> Mapping[TopicPartition, UUID | None]:
        """Each place with the name of a partition, and the topic it was made for.

        None: it has no mark that can be read, so it is not Kohort's. Raises OSError.
        """
        ...

    def is_taken(self, partition: TopicPartition) -> bool:
        """Whether anything is in the place of a partition."""
        ...

    def make(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Make places for the new partitions of topics, all of them or none, durably.

        A marked place with one of the names is left over, and is set aside. Raises NameTakenError
        if a place with one of the names has no mark, OSError.
        """
        ...

    def mark(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Mark places that version 0.1 made, durably. Raises OSError."""
        ...

    def set_aside(self, partition: TopicPartition) -> str:
        """Rename a marked place that belongs to no topic; returns its name now. Raises OSError."""
        ...

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove the place of a partition of a deleted topic; one of another topic stays.

        A new one of the same name can be made at once. Raises OSError.
        """
        ...
