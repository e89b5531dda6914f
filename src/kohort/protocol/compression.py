"""The codecs of record batches (the low three bits of a batch's attributes), through cramjam.

Only the records are compressed, never the batch header. Two names are ambiguous. "snappy" is either
the raw format (librdkafka, Go) or the framing of xerial's snappy-java (Java, kafka-python); a magic
number distinguishes them. "lz4" and "zstd" are whole frames, of which a client may write several.

Compressed bytes are untrusted, and a kilobyte of zstd can hold gigabytes, so decompression stops at
a limit.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from typing import Any, Final, TypeAlias

import cramjam

from kohort.errors import ErrorCode, KafkaError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_INFLATED = 64 * 1024 * 1024
"""Largest size of a batch's records after decompression.

Producers limit a batch before they compress it, by default to 1 MiB.
"""

MAX_DECOMPRESSED: Final = 2**31 - 9
"""Kafka's default of `max.decompressed.message.bytes`: the largest array of Java."""

_MAPPED: Final = 1024 * 1024
"""Size from which a buffer is mapped: to clear 64 MiB holds the interpreter's lock for 50 ms."""


class Codec(IntEnum):
    """Kafka's CompressionType, by the number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 1 << 31
_LZ4_END = b"\x00\x00\x00\x00"
_int32 = struct.Struct(">i")
_uint32_le = struct.Struct("<I")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` as a Java client would send it.

    Snappy in xerial's framing, which every client reads. `level` is that of gzip (1 to 9) or
    zstd (1 to 22); None: the codec's default. lz4 and snappy have none.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def decompress(codec: int, data: Buffer, limit: int = MAX_INFLATED) -> Buffer:
    """The records in `data`.

    Raises KafkaError: CORRUPT_MESSAGE if they are not of that codec, MESSAGE_TOO_LARGE beyond
    `limit` bytes, UNSUPPORTED_COMPRESSION_TYPE for a codec that does not exist.
    """
    if codec == Codec.NONE:
        return data
    try:
        match codec:
            case Codec.GZIP:
                return _inflate(cramjam.gzip.decompress_into, data, limit)
            case Codec.SNAPPY:
                return _decompress_snappy(data, limit)
            case Codec.LZ4:
                return _inflate(cramjam.lz4.decompress_into, data, limit)
            case Codec.ZSTD:
                return _inflate(cramjam.zstd.decompress_into, data, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise KafkaError(ErrorCode.corrupt_message, f"records do not decompress: {error}") from None
    raise KafkaError(
        ErrorCode.unsupported_compression_type, (f"compression type {codec} does not exist")
    )


def _inflate(decompress_into: Callable[[Any, Any], int], data: Buffer, limit: int) -> Buffer:
    """Decompress into a buffer of the size that is usually enough, then into larger ones.

    The streaming interface of cramjam has no bound, and its one-shot functions allocate as much as
    the data claims. Only a buffer of fixed size keeps a bomb from growing. It costs no extra time
    when the first size fits.
    """
    size = min(max(16 * 1024, 6 * len(data)), limit)
    while True:
        target = bytearray(size) if size < _MAPPED else mmap(-1, size)
        try:
            return memoryview(target)[: decompress_into(data, target)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        if size == limit:
            raise _too_large(limit)
        size = min(8 * size, limit)


def _decompress_snappy(data: Buffer, limit: int) -> Buffer:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_block(data, limit)
    blocks: list[Buffer] = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (size,) = _int32.unpack_from(data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise cramjam.DecompressionError("a snappy block ends beyond the batch")
        block = _decompress_block(data[position : position + size], limit)
        limit -= len(block)
        blocks.append(block)
        position += size
    return b"".join(blocks)


def _decompress_block(data: Buffer, limit: int) -> Buffer:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise _too_large(limit)
    return memoryview(cramjam.snappy.decompress_raw(data))


def _compress_xerial(data: Buffer) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
    """A frame of independent 64 KiB blocks without checksums.

    cramjam's own frames chain their blocks, and Kafka's Java reader refuses such frames ("dependent
    block stream").
    """
    parts: list[Buffer] = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        stored = data[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(stored, store_size=False))
        if len(block) < len(stored):
            parts += (_uint32_le.pack(len(block)), block)
        else:
            parts += (_uint32_le.pack(len(stored) | _LZ4_STORED), stored)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _too_large(limit: int) -> KafkaError:
    return KafkaError(ErrorCode.message_too_large, f"records decompress to more than {limit} bytes")
