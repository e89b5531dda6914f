"""The records inside a batch (Kafka's DefaultRecord, format v2): bytes <-> values.

    record  = length: varint, attributes: int8 (unused),
              timestamp delta: varlong, offset delta: varint,
              key: bytes or null, value: bytes or null,
              headers: [name: string, value: bytes or null]

Every number is a zigzag varint (small ones, negative or not, take one byte), and both deltas are
relative to the batch header. So a record is never read without its batch, but its bytes stay valid
wherever the batch is in a log.

Pure Python reads a record in a microsecond or two. Most numbers in it take one byte, hence the fast
path `byte < 128` written out where it counts; `read_zigzag_varint` reads the rest.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.compression import Buffer
from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import pack_varint, read_varint

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. `offset` and `timestamp` (ms) are -1 if not known."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int = -1
    offset: int = -1


RawRecord: TypeAlias = tuple[int, int, int, int, bytes | None, int, int]
"""One record as it lies in the bytes; only the key is copied.

The fields are start, end, timestamp delta, offset delta, key, start of the value (-1 if it is null)
and its end, where the headers start.
"""


def invalid(why: str) -> KafkaError:
    """The error for a batch whose records contradict its header."""
    return KafkaError(ErrorCode.invalid_record, why)


def encode_varint(number: int) -> bytes:
    """`number` (of at most 64 bits) as a zigzag varint."""
    return pack_varint(number << 1 if number >= 0 else (-number << 1) - 1)


SMALL_VARINTS = tuple(map(encode_varint, range(1024)))
"""Precomputed varints of 0 to 1023: nearly all lengths and deltas."""

_SMALLEST = 7
"""Bytes of a record with neither key, value nor headers."""
_SMALLEST_RAW = 6 << 1
"""Its length in zigzag encoding."""
_RUN = 128
"""Number of records that are compared at once for equal sizes; more is slow if sizes vary."""
_EVEN = bytes(range(0, 256, 2))
_INT64_MIN = -(1 << 63)
"""Below every timestamp delta."""
_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
_PREFIXES = tuple(b"\x00\x00" + varint for varint in SMALL_VARINTS)
"""First bytes of each record of a batch with one timestamp.

They are attributes, a timestamp delta of 0 and an offset delta.
"""
_PREFIX_LENGTHS = ((3, 1 << 6), (4, 1 << 13), (5, 1 << 20))
"""The lengths of prefixes, and the offset deltas up to which they apply."""
_pack_int32 = Struct(">i").pack


def _encoded(number: int) -> bytes:
    return SMALL_VARINTS[number] if 0 <= number < 1024 else encode_varint(number)


def encode(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    """The bytes of `record`, length included, for a batch with that base timestamp."""
    key, value, headers, timestamp, _ = record
    parts = [b"\x00", _encoded(timestamp - base_timestamp), _encoded(offset_delta)]
    for field in (key, value):
        parts += (_NULL,) if field is None else (_encoded(len(field)), field)
    parts.append(encode_headers(headers))
    body = b"".join(parts)
    return _encoded(len(body)) + body


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The bytes of a record's headers, their number included."""
    parts = [_encoded(len(headers))]
    for name, content in headers:
        encoded_name = name.encode(errors="surrogateescape")
        parts += (_encoded(len(encoded_name)), encoded_name)
        parts += (_NULL,) if content is None else (_encoded(len(content)), content)
    return b"".join(parts)


def encode_pair(key: bytes | None, value: bytes | None, offset_delta: int) -> bytes:
    """`encode` of a record without headers that has the batch's timestamp: group state."""
    prefix = _prefix(offset_delta)
    key_size, key = (_NULL, b"") if key is None else (_encoded(len(key)), key)
    value_size, value = (_NULL, b"") if value is None else (_encoded(len(value)), value)
    size = len(prefix) + len(key_size) + len(key) + len(value_size) + len(value) + 1
    return b"".join((_encoded(size), prefix, key_size, key, value_size, value, _NO_HEADERS))


def key_head(start: bytes) -> bytes:
    """The bytes that `encode_run` writes before an int32, for keys of `start` and that int32."""
    return _encoded(len(start) + 4) + start


def encode_run(
    key_head: bytes, key_ends: Sequence[int], values: Sequence[bytes], offset_delta: int
) -> bytes:
    """`encode_pair` of many records whose keys differ in a last int32, with values of one size."""
    count, value_size = len(values), _encoded(len(values[0]))
    rest_size = len(key_head) + 4 + len(value_size) + len(values[0]) + 1
    if count == 1:
        prefix = _prefix(offset_delta)
        size = _encoded(len(prefix) + rest_size)
        return b"".join(
            (size, prefix, key_head, _pack_int32(key_ends[0]), value_size, values[0], _NO_HEADERS)
        )
    # Column by column into one list: no step of it is taken in Python for each record.
    last = offset_delta + count
    prefixes = (
        _PREFIXES[offset_delta:last] if last <= 1024 else [*map(_prefix, range(offset_delta, last))]
    )
    sizes: list[bytes] = []
    for length, end in _PREFIX_LENGTHS:
        sizes += [_encoded(length + rest_size)] * (min(end, last) - offset_delta - len(sizes))
    parts = [key_head] * (7 * count)
    parts[0::7] = sizes
    parts[1::7] = prefixes
    parts[3::7] = map(_pack_int32, key_ends)
    parts[4::7] = [value_size] * count
    parts[5::7] = values
    parts[6::7] = [_NO_HEADERS] * count
    return b"".join(parts)


def _prefix(offset_delta: int) -> bytes:
    return (
        _PREFIXES[offset_delta]
        if offset_delta < 1024
        else b"\x00\x00" + encode_varint(offset_delta)
    )


def measure(data: Buffer, position: int, count: int) -> int:
    """The largest timestamp delta (ms) of the `count` records that fill `data` from `position` on.

    It reads lengths and timestamps alone: 0.2 to 0.5 µs a record, and 0.07 µs where many of one
    size follow each other. Raises KafkaError INVALID_RECORD if records of these lengths do not fill
    `data`. Every client can step through a batch that passes, though the inside of a record may
    still be wrong.
    """
    _validate_count(data, position, count)
    largest = _INT64_MIN
    signs = length = alike = 0
    remaining = count
    try:
        while remaining:
            start = position
            size, cursor = data[position], position + 1
            if size >= 128:
                if (more := data[cursor]) < 128:
                    size, cursor = size & 127 | more << 7, cursor + 1
                else:
                    size, cursor = read_raw_varint(data, position)
            if size < _SMALLEST_RAW:
                raise invalid(f"a record of {size >> 1} bytes")
            signs |= size
            position = cursor + (size >> 1)
            delta = data[cursor + 1]  # behind the attributes
            if delta >= 128:
                if (more := data[cursor + 2]) < 128:
                    delta = delta & 127 | more << 7
                else:
                    delta, _ = read_raw_varint(data, cursor + 1)
            delta = (delta >> 1) ^ -(delta & 1)
            if delta > largest:
                largest = delta
            remaining -= 1
            length, former = position - start, length
            alike = alike + 1 if length == former else 0
            if alike > 2 and remaining:  # four of a size: more may follow
                same = equal_sizes(data, start, length, min(remaining, _RUN))
                latest = _largest_of_run(data, cursor + 1 + length, length, same)
                if latest is None:
                    alike = 0
                else:
                    largest = max(largest, latest)
                    position += same * length
                    remaining -= same
    except IndexError:
        raise invalid(f"the batch ends before its {count} records do") from None
    if position != len(data) or signs & 1:
        raise invalid(f"its {count} records do not end where the batch does")
    return largest


def are_numbered(data: Buffer, position: int, count: int) -> bool:
    """Whether the offset deltas of `count` records from `position` on are 0, 1, 2, ….

    They have passed `measure`; it takes 0.35 to 0.5 µs each. Raises KafkaError INVALID_RECORD if a
    record ends before its offset delta.
    """
    try:
        for index in range(count):
            size, cursor = data[position], position + 1
            if size >= 128:
                if (more := data[cursor]) < 128:
                    size, cursor = size & 127 | more << 7, cursor + 1
                else:
                    size, cursor = read_raw_varint(data, position)
            position = cursor + (size >> 1)
            cursor += 1  # behind the attributes
            while data[cursor] >= 128:
                cursor += 1
            delta = data[cursor + 1]
            if delta >= 128:
                if (more := data[cursor + 2]) < 128:
                    delta = delta & 127 | more << 7
                else:
                    delta, _ = read_raw_varint(data, cursor + 1)
            if delta != index << 1:
                return False
    except IndexError:
        raise invalid("a record ends before its offset delta") from None
    return True


def validate_sizes(data: Buffer, count: int, limit: int) -> None:
    """Raises KafkaError INVALID_RECORD if one of `count` records has more than `limit` bytes.

    The records fill `data` and are well-formed. The length in front of a record does not count.
    """
    position = 0
    for _ in range(count):
        size, start = read_zigzag_varint(data, position)
        if size > limit:
            raise invalid(f"a record has {size} bytes, at most {limit}")
        position = start + size


def numbered(data: Buffer, position: int, count: int) -> bytes:
    """The `count` records that fill `data` from `position` on, with the offset deltas 0, 1, 2, ….

    Raises KafkaError INVALID_RECORD if something else is there.
    """
    parts: list[bytes] = []
    for index, (start, end, *_) in enumerate(walk(data, position, count)):
        _, cursor = read_raw_varint(data, start)
        _, delta_at = read_raw_varint(data, cursor + 1)
        _, rest_at = read_raw_varint(data, delta_at)
        body = b"".join(
            (bytes(data[cursor:delta_at]), encode_varint(index), bytes(data[rest_at:end]))
        )
        parts += encode_varint(len(body)), body
    return b"".join(parts)


def _largest_of_run(data: Buffer, start: int, step: int, count: int) -> int | None:
    """The largest of `count` timestamp deltas at `start` and every `step` bytes on.

    None if they differ in length, are longer than two bytes, or any is negative; the caller then
    reads them one by one.
    """
    end = start + count * step
    low = bytes(data[start:end:step])
    if len(low) < count or not count or low.translate(None, _EVEN):  # zigzag: negative is odd
        return None
    if max(low) < 128:
        return max(low) >> 1
    high = bytes(data[start + 1 : end + 1 : step])
    if min(low) < 128 or len(high) < count or max(high) >= 128:
        return None
    most = max(high)
    first = high.index(most)
    if high.count(most) == count - first:  # timestamps rise, as they mostly do
        least = max(low[first:])
    else:
        least = max(byte for byte, above in zip(low, high, strict=True) if above == most)
    return (least & 127 | most << 7) >> 1


def equal_sizes(data: Buffer, start: int, step: int, limit: int) -> int:
    """How many of the next `limit` records have the length `step` of the one at `start`.

    They are compared by slices, not one by one. Records of one size are common, and take a tenth of
    the time so.
    """
    end = start + (limit + 1) * step
    while True:
        byte = bytes(data[start : start + 1])
        column = bytes(data[start + step : end : step])
        limit = min(limit, len(column) - len(column.lstrip(byte)))
        if byte < b"\x80" or not limit:
            return limit
        start += 1


def walk(data: Buffer, position: int, count: int) -> Iterator[RawRecord]:
    """The `count` records that fill `data` from `position` on.

    Raises KafkaError INVALID_RECORD if something else is there, at the latest after the last
    record.
    """
    _validate_count(data, position, count)
    try:
        for _ in range(count):
            record = read_record(data, position)
            yield record
            position = record[1]
    except IndexError:
        raise invalid(f"the batch ends before its {count} records do") from None
    if position != len(data):
        raise invalid(f"the batch goes on after its {count} records")


def read_pairs(
    data: bytes, position: int, end: int, count: int
) -> list[tuple[bytes, bytes | None]] | None:
    """Key and value of the `count` records from `position` to `end`; None if `walk` is needed.

    It reads the usual records of small batches of group state, in half a microsecond each: with
    keys, deltas of one byte, lengths of one or two bytes, and no headers.
    """
    pairs: list[tuple[bytes, bytes | None]] = []
    cursor = position
    try:
        for _ in range(count):
            size, cursor = data[cursor], cursor + 1
            if size >= 128:
                if (more := data[cursor]) >= 128:
                    return None
                size, cursor = size & 127 | more << 7, cursor + 1
            following = cursor + (size >> 1)
            if data[cursor + 1] >= 128 or data[cursor + 2] >= 128:
                return None
            key_size, cursor = data[cursor + 3], cursor + 4
            if key_size >= 128:
                if (more := data[cursor]) >= 128:
                    return None
                key_size, cursor = key_size & 127 | more << 7, cursor + 1
            key_end = cursor + (key_size >> 1)
            value_size, value_at = data[key_end], key_end + 1
            if value_size >= 128:
                if (more := data[value_at]) >= 128:
                    return None
                value_size, value_at = value_size & 127 | more << 7, value_at + 1
            # zigzag: a negative length is odd, and that of null is 1
            is_null = value_size == 1
            value_end = value_at if is_null else value_at + (value_size >> 1)
            if (
                (size | key_size) & 1
                or (value_size & 1 and not is_null)
                or value_end + 1 != following
                or data[value_end]
            ):
                return None
            pairs.append((data[cursor:key_end], None if is_null else data[value_at:value_end]))
            cursor = following
    except IndexError:
        return None
    return pairs if cursor == end else None


def decode(
    data: bytes, position: int, count: int, base_offset: int, base_timestamp: int
) -> Iterator[Record]:
    """`walk`, with values and headers, and with offsets and timestamps made absolute."""
    for _, _, timestamp_delta, offset_delta, key, start, end in walk(data, position, count):
        value = None if start < 0 else data[start:end]
        headers = () if data[end] == 0 else tuple(_headers(data, end))
        yield Record(
            key, value, headers, base_timestamp + timestamp_delta, base_offset + offset_delta
        )


def _validate_count(data: Buffer, position: int, count: int) -> None:
    """Refuse an impossible count, which may be 2^31, before a loop over it."""
    if count * _SMALLEST > len(data) - position:
        raise invalid(f"{len(data) - position} bytes do not hold {count} records")


def read_record(data: Buffer, start: int) -> RawRecord:
    """The record at `start`. Raises IndexError at the end of `data`, KafkaError INVALID_RECORD."""
    size, position = read_zigzag_varint(data, start)
    end = position + size
    position += 1  # attributes are unused
    if (byte := data[position]) < 128:
        timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        timestamp_delta, position = read_zigzag_varint(data, position)
    if (byte := data[position]) < 128:
        offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        offset_delta, position = read_zigzag_varint(data, position)
    size, position = read_zigzag_varint(data, position)
    key = None if size < 0 else bytes(data[position : position + size])
    position += max(size, 0)
    size, value_start = read_zigzag_varint(data, position)
    value_end = value_start + max(size, 0)
    read = value_end + 1 if data[value_end] == 0 else _end_of_headers(data, value_end)
    if read != end:
        raise invalid("the length of a record is not that of its fields")
    return (
        start,
        end,
        timestamp_delta,
        offset_delta,
        key,
        value_start if size >= 0 else -1,
        value_end,
    )


def _headers(data: bytes, position: int) -> Iterator[Header]:
    count, position = read_zigzag_varint(data, position)
    for _ in range(count):
        size, position = read_zigzag_varint(data, position)
        name = data[position : position + size].decode(errors="surrogateescape")
        position += size
        size, position = read_zigzag_varint(data, position)
        yield name, (None if size < 0 else data[position : position + size])
        position += max(size, 0)


def _end_of_headers(data: Buffer, position: int) -> int:
    count, position = read_zigzag_varint(data, position)
    if count < 0:
        raise invalid("a record with a negative number of headers")
    for _ in range(count):
        size, position = read_zigzag_varint(data, position)
        if size < 0:
            raise invalid("a header without a name")
        size, position = read_zigzag_varint(data, position + size)
        position += max(size, 0)
    return position


def read_zigzag_varint(data: Buffer, position: int) -> tuple[int, int]:
    """The zigzag varint at `position`, and the offset after it.

    Raises IndexError at the end of `data`.
    """
    byte = data[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw, position = read_raw_varint(data, position)
    return (raw >> 1) ^ -(raw & 1), position


def read_raw_varint(data: Buffer, position: int) -> tuple[int, int]:
    """The varint at `position` before its zigzag is undone, and the offset behind it.

    Raises IndexError at the end of `data`, KafkaError INVALID_RECORD beyond ten bytes.
    """
    try:
        return read_varint(data, position, max_bytes=10)
    except MalformedError as error:
        raise invalid(str(error)) from None
