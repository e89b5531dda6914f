"""A committed offset, as clients write and read it (Kafka's OffsetAndMetadata)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset: that of the next record for the group."""

    offset: int
    leader_epoch: int = -1
    """-1: not known."""
    metadata: str = ""
