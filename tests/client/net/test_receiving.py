"""Frames out of bytes that come in any pieces."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.net.receiving import SHARED_SIZE, Receiver
from kohort.protocol.framing import MalformedError


def fed(receiver: Receiver, data: bytes, at_once: int) -> list[bytes]:
    """The frames of `data`, written in pieces of up to `at_once` bytes into the lent buffer."""
    frames = []
    at = 0
    while at < len(data):
        memory = receiver.get_buffer()
        assert len(memory) > 0
        piece = data[at : at + min(at_once, len(memory))]
        memory[: len(piece)] = piece
        frames += [bytes(frame) for frame in receiver.buffer_updated(len(piece))]
        at += len(piece)
    return frames


@given(
    st.lists(
        st.one_of(
            st.integers(4, 300),
            st.sampled_from([SHARED_SIZE // 2 - 4, SHARED_SIZE // 2, SHARED_SIZE, 3 * SHARED_SIZE]),
        ),
        max_size=8,
    ),
    st.sampled_from([1, 3, 7, 1000, SHARED_SIZE - 1, SHARED_SIZE, 1 << 20]),
)
def test_frames_do_not_depend_on_the_pieces_received(sizes: list[int], at_once: int) -> None:
    frames = [bytes((number + at) % 251 for at in range(size)) for number, size in enumerate(sizes)]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert fed(Receiver(1 << 20), stream, max(at_once, len(stream) // 5000)) == frames


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 2**31 - 1, -(2**31)])
def test_a_size_out_of_range_is_malformed(size: int) -> None:
    with pytest.raises(MalformedError, match="4 to 1,000 are accepted"):
        fed(Receiver(1000), struct.pack(">i", size), 4)


def test_the_response_of_a_tls_listener_is_recognized() -> None:
    with pytest.raises(MalformedError, match="the bytes are a TLS alert, not Kafka's protocol"):
        fed(Receiver(1 << 20), b"\x15\x03\x03\x00\x02", 5)


def test_a_large_frame_is_received_in_place() -> None:
    receiver = Receiver(1 << 20)
    fed(receiver, struct.pack(">i", 500_000), 4)
    memory = receiver.get_buffer()
    assert len(memory) == 500_000
    assert [len(frame) for frame in receiver.buffer_updated(500_000)] == [500_000]
