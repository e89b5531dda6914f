"""The metadata log of another node, as a node that follows it knows it."""

from collections.abc import Callable, Collection
from typing import NoReturn
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.server.metadata import MetadataImage, MetadataRecord


class FollowedMetadataLog:
    """`state` as read from another node, which is the only one that changes it."""

    def __init__(self) -> None:
        self.state = MetadataImage()
        self.end_offset = 0
        """Offset of the next record to be read."""
        self.last_change = 0
        self.on_rollback: Callable[[Collection[UUID]], None]

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Replay the record of that offset."""
        self.state.replay(record)
        self.end_offset = offset + 1

    def skip(self, offset: int) -> None:
        """Continue at that offset: the records before it were compacted away."""
        self.end_offset = max(self.end_offset, offset)

    def commit(self, *_: MetadataRecord) -> NoReturn:
        raise _not_controller()

    async def durable(self, _: int | None = None) -> NoReturn:
        raise _not_controller()


def _not_controller() -> KafkaError:
    text = "This is not the correct controller for this cluster."
    return KafkaError(ErrorCode.not_controller, text)
