"""The user data of the sticky assignors, in Java's schemas.

sticky v0 has the previous assignment (topics with their partitions); v1 adds its generation.
cooperative-sticky v0 has the generation only, for leaders older than subscription v2. No schema
contains its version, so a reader tries the newest first. A member whose data cannot be read counts
as new, as in Java.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final

from kohort.assignors.base import UNKNOWN_GENERATION
from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import pack_array, pack_int32, pack_string
from kohort.types import TopicPartition

_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")


def encode_previous(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """sticky v1."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    topics = (
        b"".join((pack_string(topic), pack_array(len(numbers)), *map(pack_int32, numbers)))
        for topic, numbers in by_topic.items()
    )
    return b"".join((pack_array(len(by_topic)), *topics, pack_int32(generation)))


def decode_previous(data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """sticky v1 or v0: the partitions, and their generation, -1 if unknown. Never raises."""
    try:
        partitions, position = _read_partitions(data or b"")
    except (error, UnicodeDecodeError, MalformedError):
        return (), UNKNOWN_GENERATION
    return partitions, decode_generation((data or b"")[position:])


def encode_generation(generation: int) -> bytes:
    """cooperative-sticky v0."""
    return pack_int32(generation)


def decode_generation(data: bytes | None) -> int:
    """cooperative-sticky v0; -1 if there is none. Never raises."""
    if data is None or len(data) < _INT32.size:
        return UNKNOWN_GENERATION
    generation: int = _INT32.unpack_from(data)[0]
    return generation


def _read_partitions(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Partitions, and the offset after them.

    Raises struct.error, UnicodeDecodeError or `MalformedError` for anything else.
    """
    topics, position = _INT32.unpack_from(data)[0], _INT32.size
    read: list[TopicPartition] = []
    for _ in range(topics):
        if (length := _INT16.unpack_from(data, position)[0]) < 0:
            raise MalformedError("a topic without a name")
        position += _INT16.size + length
        topic = data[position - length : position].decode()
        numbers = Struct(f">{_INT32.unpack_from(data, position)[0]}i")
        position += _INT32.size
        read.extend(TopicPartition(topic, number) for number in numbers.unpack_from(data, position))
        position += numbers.size
    return tuple(read), position
