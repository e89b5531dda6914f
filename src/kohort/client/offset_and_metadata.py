"""A committed offset, as clients give and get it (Kafka's OffsetAndMetadata)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset: the next record that the group wants."""

    offset: int
    leader_epoch: int = -1
    """-1: whoever committed did not say."""
    metadata: str = ""
