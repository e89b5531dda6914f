"""The undamaged batches of a segment that has damaged ones.

The CRC of a batch covers all but its base offset, its length and its leader epoch. A wrong length
makes the CRC fail. A wrong offset or epoch contradicts that of a batch beside it, which leaves open
which of the two is wrong. Without compaction offsets have no gaps, and epochs seldom change: the
batch that continues exactly from its other neighbour is right. In doubt neither counts.
"""

from collections.abc import Iterator

from kohort.log import scan
from kohort.log.stores import Store
from kohort.protocol.batches import HEADER_SIZE, Header, read_header


def undamaged_batches(
    store: Store, start: int, next_offset: int, end_offset: int
) -> Iterator[tuple[int, Header]]:
    """(position, header) of the undamaged batches from `start` on, with damaged ones between them.

    The batch at `start` does not lie before `next_offset`, and follows it if it is that. The last
    one lies before `end_offset`. Raises OSError.
    """
    epoch = 0
    batches = _valid(store, start)
    following = next(batches, None)
    while following is not None:
        position, header = following
        limit, limit_epoch = end_offset, store.latest_epoch
        if (following := next(batches, None)) is not None:
            limit, limit_epoch = following[1].base_offset, following[1].partition_leader_epoch
        own_end, own_epoch = header.last_offset + 1, header.partition_leader_epoch
        is_in_place = next_offset <= header.base_offset and own_end <= limit
        if (is_in_place or header.base_offset == next_offset or own_end == limit) and (
            epoch <= own_epoch <= limit_epoch or own_epoch in (epoch, limit_epoch)
        ):
            yield position, header
        next_offset, epoch = own_end, own_epoch


def _valid(store: Store, position: int) -> Iterator[tuple[int, Header]]:
    """(position, header) of the batches with the right CRC from `position` on.

    Their offsets and epochs need not rise. Raises OSError.
    """
    start: int | None = position
    while start is not None:
        position = start
        for start_of_batch, header, _ in scan.intact(store, position, 0):
            yield start_of_batch, header
            position = start_of_batch + header.size
        # A batch that is valid but for its offset or epoch begins a walk of its own.
        start = position if _is_valid(store, position) else _behind(store, position)


def _is_valid(store: Store, position: int) -> bool:
    return next(scan.intact(store, position, 0), None) is not None


def _behind(store: Store, position: int) -> int | None:
    """Position of the first valid batch behind the damaged one at `position`."""
    if position + HEADER_SIZE > store.size:
        return None
    header = read_header(store.read(position, HEADER_SIZE))
    if scan.is_plausible(header) and _is_valid(store, position + header.size):
        return position + header.size
    return scan.next_start(store, position + 1, 0)
