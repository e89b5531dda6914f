"""A log as a fake broker serves it, damaged batches too."""

from crc32c import crc32c

from client.fake_cluster import FakeCluster
from client.fetch.test_faults import Log
from kohort.protocol.batch_format import read_header


class ServedLog(Log):
    """Serves batches from the first one on that ends behind the offset, by its header."""

    def __init__(self, fake: FakeCluster, *content: bytes, end: int) -> None:
        super().__init__(fake)
        self.content = b"".join(content)
        self.end = end

    def records(self, offset: int) -> bytes:
        position = 0
        while (header := read_header(self.content, position)).last_offset < offset:
            position += header.size
        return self.content[position:]


def changed(content: bytes, at: int, byte: int, *, is_confirmed: bool = False) -> bytes:
    """A batch with another byte. `is_confirmed`: its CRC is that of the changed content."""
    found = bytearray(content)
    found[at] = byte
    if is_confirmed:
        found[17:21] = crc32c(bytes(found[21:])).to_bytes(4, "big")
    return bytes(found)
