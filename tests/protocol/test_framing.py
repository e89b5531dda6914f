"""Frames from any cutting of the stream."""

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.framing import CONTENT, FrameReader, MalformedError


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def take_all(reader: FrameReader) -> list[bytes]:
    frames = []
    while (data := reader.next_frame()) is not None:
        frames.append(data)
    return frames


def test_one_frame_in_one_feed_is_not_copied() -> None:
    reader, data = FrameReader(100), frame(b"heartbeat")
    reader.feed(data)
    assert reader.next_frame() is data
    assert data[CONTENT:] == b"heartbeat"
    assert reader.next_frame() is None
    assert reader.buffered == 0


def test_a_frame_in_many_feeds_takes_its_memory_once() -> None:
    reader, piece, pieces = FrameReader(1 << 24), bytes(1 << 16), 128
    reader.feed(struct.pack(">i", len(piece) * pieces))
    tracemalloc.start()
    try:
        for _ in range(pieces - 1):
            reader.feed(piece)
        reader.feed(piece + frame(b"next"))
        tracemalloc.reset_peak()
        taken = reader.next_frame()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == frame(piece * pieces)
    assert peak < 1.5 * len(taken)
    assert reader.next_frame() == frame(b"next")


def test_frames_fed_byte_by_byte_are_found() -> None:
    reader, frames = FrameReader(100), [frame(b"a"), frame(b""), frame(b"bc" * 40)]
    taken = []
    for byte in b"".join(frames):
        reader.feed(bytes((byte,)))
        taken += take_all(reader)
    assert taken == frames


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.lists(st.integers(0, 300), max_size=8),
    st.booleans(),
)
def test_any_cutting_gives_the_same_frames(
    contents: list[bytes], cuts: list[int], take_at_once: bool
) -> None:
    frames = [frame(content) for content in contents]
    stream = b"".join(frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = FrameReader(40)
    taken: list[bytes] = []
    for start, stop in pairwise(edges):
        reader.feed(stream[start:stop])
        assert reader.buffered == stop - sum(map(len, taken))
        if take_at_once:
            taken += take_all(reader)
    assert taken + take_all(reader) == frames
    assert reader.buffered == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_out_of_range_is_refused_before_its_bytes_come(size: int) -> None:
    reader = FrameReader(100)
    reader.feed(frame(b"fine") + struct.pack(">i", size))
    assert reader.next_frame() == frame(b"fine")
    with pytest.raises(MalformedError, match="0 to 100 are accepted"):
        reader.next_frame()


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"GET / HTTP/1.1", "an HTTP request"),
        (b"OPTIONS * HTTP/1.1", "an HTTP request"),
        (b"PRI * HTTP/2.0", "an HTTP request"),
        (b"HTTP/1.1 400 Bad Request", "an HTTP response"),
        (b"\x16\x03\x01\x02\x00", "a TLS handshake"),
        (b"\x15\x03\x03\x00\x02", "a TLS alert"),
        (b"SSH-2.0-OpenSSH", "SSH"),
        (b"PROXY TCP4", "a header of the PROXY protocol"),
    ],
)
def test_bytes_of_other_protocols_are_called_so(start: bytes, name: str) -> None:
    reader = FrameReader(100 << 20)
    reader.feed(start)
    with pytest.raises(MalformedError, match=f"the bytes are {name}, not Kafka's protocol"):
        reader.next_frame()


def test_the_largest_frame_is_accepted() -> None:
    reader = FrameReader(100)
    reader.feed(frame(bytes(100)))
    assert reader.next_frame() == frame(bytes(100))


def test_wanted_is_known_as_soon_as_the_size_is() -> None:
    reader = FrameReader(100)
    assert reader.wanted() == CONTENT
    reader.feed(b"\0\0")
    assert reader.wanted() == CONTENT
    reader.feed(b"\0\x50")
    assert reader.wanted() == CONTENT + 0x50
    reader.feed(bytes(0x4F))
    assert (reader.next_frame(), reader.wanted()) == (None, CONTENT + 0x50)
    reader.feed(b"\0")
    assert reader.next_frame() == frame(bytes(0x50))


def test_only_the_waiting_bytes_are_kept() -> None:
    reader = FrameReader(100)
    reader.feed(frame(b"abc") + frame(b"de")[:5])
    assert reader.next_frame() == frame(b"abc")
    assert reader.buffered == 5
    assert reader.next_frame() is None
    reader.feed(b"e" + frame(b"f"))
    assert take_all(reader) == [frame(b"de"), frame(b"f")]
