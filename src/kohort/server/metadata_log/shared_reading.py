"""Reads of the shared metadata log, whose beginning a snapshot may have replaced."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kohort import __version__
from kohort.cluster import SharedStorage
from kohort.errors import KohortError
from kohort.protocol.batches import read_header
from kohort.server.metadata import (
    MetadataImage,
    MetadataRecord,
    UndecodableError,
    decode_batches,
    difference,
    records_of,
)
from kohort.util.time_slice import TimeSlices


class LogRead(NamedTuple):
    """Records that follow on an offset."""

    start_offset: int
    records: Sequence[tuple[int, MetadataRecord]]
    """Offsets and records, from `start_offset` on."""
    author: int
    """The author of the first batch, as of `encode_batch`."""
    snapshot_end: int
    """End of the snapshot that the records lead to; 0: they are the log's own."""


class LogReader:
    """Reads what nodes have appended, giving way to other tasks."""

    def __init__(
        self, storage: SharedStorage, image: MetadataImage, roll_back: Callable[[], None]
    ) -> None:
        """`image` is the state at the end of the last read, with changes of this node.

        `roll_back` undoes those changes, as it is unknown whether a snapshot has them.
        """
        self._storage = storage
        self._image = image
        self._roll_back = roll_back
        self._slices = TimeSlices()

    async def read(self, offset: int) -> LogRead | None:
        """The records from `offset` on, as many as one read returns; None at the end.

        Raises OSError, UnknownOutcomeError, and KohortError for records of a later version.
        """
        data, snapshot_end = await self._storage.read(offset)
        if not data:
            return None
        author = read_header(data).producer_id
        records: list[tuple[int, MetadataRecord]] = []
        try:
            for logged in decode_batches(data):
                if logged[0] >= offset or snapshot_end:
                    records.append(logged)
                await self._slices.give_way()
        except UndecodableError as error:
            raise KohortError(
                f"the metadata log of the cluster: {error}. This is Kohort {__version__}: start "
                "the version of the node that wrote it, or a later one"
            ) from error
        if not snapshot_end:
            return LogRead(offset, records, author, 0)
        changes = await self._changes_to(record for _, record in records)
        # Each of them is of a key of which at least one record was logged meanwhile.
        start_offset = snapshot_end - len(changes)
        return LogRead(start_offset, [*enumerate(changes, start_offset)], author, snapshot_end)

    async def _changes_to(self, snapshot: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        """The records that lead from `image` to the state of a snapshot."""
        later = MetadataImage()
        for record in snapshot:
            later.replay(record)
            await self._slices.give_way()
        self._roll_back()
        current = records_of(self._image)
        changes = await asyncio.to_thread(difference, current, records_of(later))
        self._roll_back()  # changes that were committed meanwhile
        return changes
