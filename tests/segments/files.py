"""Segment files for tests, written batch by batch."""

from itertools import pairwise
from pathlib import Path
from struct import pack

from kohort.protocol import batches
from kohort.protocol.batches import Record

NOW = 1_700_000_000_000


def batch(offset, count=2, **options):
    """A record batch with values v<offset>, …"""
    records = [Record(b"k", b"v%d" % (offset + at), (), NOW + at) for at in range(count)]
    return batches.build(records, base_offset=offset, **options)


def log_of(start, end, count=2):
    """Batches with the offsets from `start` to below `end`."""
    return b"".join(batch(offset, count) for offset in range(start, end, count))


class Partition:
    """A directory of a partition."""

    def __init__(self, parent: Path, name: str = "orders-0") -> None:
        self.path = parent / name
        self.path.mkdir(parents=True)

    def segment(self, base_offset, content, suffix=".log"):
        """Write a segment."""
        path = self.path / f"{base_offset:020}{suffix}"
        path.write_bytes(content)
        return path

    def index(self, base_offset, *entries, allocated=0):
        """Write an index of (offset, position) with room for more entries."""
        content = b"".join(pack(">ii", offset - base_offset, at) for offset, at in entries)
        self.segment(base_offset, content + bytes(8 * allocated), ".index")

    def fill(self, *bounds):
        """A segment between each two of `bounds`."""
        for start, end in pairwise(bounds):
            self.segment(start, log_of(start, end))
        return self
