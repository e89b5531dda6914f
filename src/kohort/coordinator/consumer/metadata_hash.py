"""The hash of the metadata of the topics that a group subscribes to."""

from collections.abc import Iterable
from hashlib import blake2b

from kohort.coordinator.topics import TopicsView


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """The hash of those of the topics that exist, 0 if there is none."""
    found = [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    return int.from_bytes(blake2b(repr(found).encode(), digest_size=8).digest(), signed=True)
