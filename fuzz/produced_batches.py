"""Invariant: a batch is refused by KafkaError, or every reader of logs reads all of it.

    python fuzz/produced_batches.py [inputs]

The CRC and length of an input are made right unless its first byte is odd. What `validate` accepts
is walked, decoded, appended to a log in memory and read back.
"""

import _engine

with _engine.instrumented():
    import crc32c

    from kohort.errors import KafkaError
    from kohort.log.base import LogConfig
    from kohort.log.memory import MemoryDirectory
    from kohort.protocol import batches
    from kohort.protocol.batches import Codec, Record
    from kohort.types import Timestamp, TopicPartition

NOW = Timestamp(1_700_000_000_000)
CONFIGS = (LogConfig(), LogConfig(cleanup_policy=frozenset({"compact"}), compression=Codec.LZ4))
_CRC_AT, _CRC_FROM, _SIZE_AT = 17, 21, 8


def check(data: bytes) -> None:
    batch = bytearray(data[1:])
    if data[:1] and not data[0] & 1 and len(batch) > _CRC_FROM:
        batch[_SIZE_AT : _SIZE_AT + 4] = (len(batch) - 12).to_bytes(4, "big")
        batch[_CRC_AT:_CRC_FROM] = crc32c.crc32c(bytes(batch[_CRC_FROM:])).to_bytes(4, "big")
    for config in CONFIGS:
        try:
            valid = batches.validate(bytes(batch), config.rules, NOW)
        except KafkaError:
            continue
        read_back(valid, config)


def read_back(valid: batches.Buffer, config: LogConfig) -> None:
    log = MemoryDirectory().open(TopicPartition("t", 0), config)
    try:
        appended = log.append(valid, NOW)
    except KafkaError:
        return  # its producer or transaction is refused
    count = appended.last_offset - appended.base_offset + 1
    stored = log.read(0, 1 << 20)
    ((position, header),) = batches.iterate(stored)
    assert header.last_offset_delta + 1 == count
    try:
        records = list(batches.decode_records(stored, position))
    except KafkaError:
        return  # the inside of a record is checked by its readers
    assert len(records) == count
    assert log.end_offset == count


def seeds() -> list[bytes]:
    records = [Record(b"k%d" % at, b"v" * at, (("h", b"1"),), NOW + at) for at in range(5)]
    made = [batches.build(records, codec=codec) for codec in Codec]
    made.append(batches.build(records, producer_id=1, producer_epoch=0, base_sequence=0))
    made.append(batches.build([Record(None, None, (), NOW)]))
    return [flag + bytes(batch) for batch in made for flag in (b"\x00", b"\x01")]


if __name__ == "__main__":
    _engine.main(check, seeds())
