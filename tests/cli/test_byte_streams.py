"""Standard input and output beside a loop: nothing blocks, nothing is lost, nothing is out of
order.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cli.byte_streams import ByteOutput, chunks, split


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield each


def messages(*data: bytes, delimiter: bytes = b"\n", limit: int = 100) -> list[bytes]:
    async def gather() -> list[bytes]:
        return [
            message
            async for together in split(parts(*data), delimiter, limit)
            for message in together
        ]

    return asyncio.run(gather())


def test_messages_end_with_the_delimiter_or_the_input() -> None:
    assert messages(b"a\nb\n\nc") == [b"a", b"b", b"c"]
    assert messages(b"a", b"b\r", b"\nc\r\n", delimiter=b"\r\n") == [b"ab", b"c"]
    assert messages() == []


@given(
    st.lists(st.binary(min_size=1, max_size=5).filter(lambda data: b"," not in data)),
    st.integers(1, 7),
)
def test_the_pieces_in_which_input_comes_do_not_matter(expected: list[bytes], size: int) -> None:
    whole = b",;".join(expected)
    cut = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert messages(*cut, delimiter=b",;") == expected


def test_a_message_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 10 bytes: is the delimiter"):
        messages(*[b"x" * 4] * 10, limit=10)


async def received(descriptor: int, size: int) -> bytes:
    """So many bytes, read while the loop goes on."""
    data = bytearray()
    async for piece in chunks(descriptor):
        data += piece
        if len(data) >= size:
            break
    return bytes(data)


async def test_a_full_pipe_stops_nobody_else() -> None:
    read, write = os.pipe()
    output = ByteOutput(write)
    data = os.urandom(1 << 20)
    writing = asyncio.ensure_future(output.write(data))
    await asyncio.sleep(0)
    assert not writing.done()
    assert await received(read, len(data)) == data
    await writing
    os.close(read)
    assert output.is_broken
    with pytest.raises(BrokenPipeError):
        await output.write(b"x")
    os.close(write)


async def test_bytes_left_of_a_cancelled_write_go_out_before_the_next() -> None:
    read, write = os.pipe()
    output = ByteOutput(write)
    first, second = b"a" * 300_000, b"b" * 10
    writing = asyncio.ensure_future(output.write(first))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    rest = asyncio.ensure_future(output.write(second))
    assert await received(read, len(first + second)) == first + second
    await rest
    os.close(read)
    os.close(write)


async def test_input_is_waited_for_by_the_loop() -> None:
    read, write = os.pipe()
    source = chunks(read)
    coming = asyncio.ensure_future(anext(source))
    await asyncio.sleep(0.01)
    assert not coming.done()
    os.write(write, b"x")
    assert await coming == b"x"
    os.close(write)
    assert [data async for data in source] == []
    os.close(read)


@pytest.mark.parametrize("path", ["/dev/null", __file__])
def test_files_and_devices_are_read_too(path: str) -> None:
    async def whole(descriptor: int) -> bytes:
        return b"".join([data async for data in chunks(descriptor)])

    with open(path, "rb") as file:
        assert asyncio.run(whole(file.fileno())) == Path(path).read_bytes()
