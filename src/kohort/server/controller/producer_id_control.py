"""Blocks of producer ids, each reserved once (Kafka's ProducerIdControlManager).

A block is reserved by one record before its first id is given. What is left of a block when its
server ends is lost, which costs nothing: there are 2^63 of them.
"""

from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.metadata import MetadataImage, ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
MAX_ID: Final = 2**63 - 1


class ProducerIdControl:
    """Decides which producer ids come next."""

    def __init__(self, image: MetadataImage) -> None:
        self._reserved = image.producer_ids_end

    def next_block(self) -> tuple[range, ProducerIdsRecord]:
        """New ids, and the record that reserves them. None of them is in a later block.

        Raises KafkaError UNKNOWN_SERVER_ERROR if no ids are left.
        """
        start, end = self._reserved, min(self._reserved + BLOCK_SIZE, MAX_ID)
        if start == end:
            raise KafkaError(ErrorCode.unknown_server_error, "no producer ids are left")
        self._reserved = end
        return range(start, end), ProducerIdsRecord(end)

    def reserved(self, end: int) -> None:
        """The ids below `end` were reserved, maybe by another node."""
        self._reserved = end
