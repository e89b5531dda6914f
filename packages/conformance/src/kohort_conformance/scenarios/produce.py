"""Produce: every version, acknowledgements, and batches that are wrong in one place."""

from __future__ import annotations

import gzip
import uuid
from typing import Any

from kohort_conformance.batches import LOG_APPEND_TIME, BatchRecord, RecordBatch, records
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage, topic_id

EVERY_VERSION = range(3, 13)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
BATCH_HEADER = 61
GOOD = RecordBatch().encode()
TOO_FAR = 4_102_444_800_000
"""A time (in 2100) that is far more than an hour ahead."""


def to(topic: str, data: bytes | None = GOOD, partition: int = 0) -> dict[str, Any]:
    """One topic of a Produce with data for one partition."""
    return {"name": topic, "partition_data": [{"index": partition, "records": data}]}


async def produce(
    client: Client, topic: str, data: bytes | None = GOOD, version: int = 9, **values: Any
) -> None:
    """Produce to partition 0 of one topic, acknowledged, recorded."""
    request = {"acks": -1, "timeout": 5_000, "topic_data": [to(topic, data)], **values}
    await client.ask("Produce", version, **request)


async def refused(client: Client, topic: str, data: bytes) -> None:
    """Produce what Kafka refuses with UNKNOWN_SERVER_ERROR; only the refusal is recorded."""
    request = {"acks": -1, "timeout": 5_000, "topic_data": [to(topic, data)]}
    response = await client.quiet("Produce", 9, **request)
    code = response["responses"][0]["partition_responses"][0]["error_code"]
    client.stage.note(f"{client.client_id}: refused", code != "NONE (0)")


async def end(client: Client, topic: str, partition: int = 0) -> None:
    """Record where a partition ends."""
    asked = [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}]
    told = await client.quiet(
        "ListOffsets", 5, replica_id=-1, topics=[{"name": topic, "partitions": asked}]
    )
    client.stage.note("the partition ends at", told["topics"][0]["partitions"][0]["offset"])


async def fetched(client: Client, topic: str, version: int = 11) -> None:
    """Record the batches of partition 0."""
    told = await client.quiet(
        "Fetch",
        version,
        max_wait=0,
        min_bytes=0,
        topics=[
            {
                "topic": topic,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
    )
    client.stage.note("batches", told["responses"][0]["partitions"][0]["records"])


@scenario
async def every_version(stage: Stage) -> None:
    """A batch in each version; the offsets count on."""
    topic = await stage.create_topic()
    a = await stage.client()
    for version in EVERY_VERSION:
        await produce(a, topic, RecordBatch(records(b"a", b"b")).encode(), version)
    await fetched(a, topic)


@scenario
async def topic_ids_in_version_13(stage: Stage) -> None:
    """Version 13 names topics by id; an id that nobody has is unknown."""
    topic = await stage.create_topic()
    a = await stage.client()
    known = await topic_id(a, topic)
    for one in (known, uuid.UUID(int=7), None):
        data = {"topic_id": one, "partition_data": [{"index": 0, "records": GOOD}]}
        await a.ask("Produce", 13, acks=-1, timeout=5_000, topic_data=[data])


@scenario
async def acknowledged_by_the_leader(stage: Stage) -> None:
    """acks=1."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, acks=1)
    await produce(a, topic, version=3, acks=1)


@scenario
async def unacknowledged(stage: Stage) -> None:
    """acks=0 has no response; the next request's response comes next."""
    topic = await stage.create_topic()
    a = await stage.client()
    for version in (3, 9, 12):
        sent = a.send("Produce", version, acks=0, timeout=5_000, topic_data=[to(topic)])
        a.connection.forget(sent.call)
    await end(a, topic)


@scenario
async def unacknowledged_to_an_unknown_topic(stage: Stage) -> None:
    """acks=0 to a topic that does not exist closes the connection."""
    a = await stage.client()
    sent = a.send("Produce", 9, acks=0, timeout=5_000, topic_data=[to(stage.topic_named("none"))])
    a.connection.forget(sent.call)
    await a.is_hung_up()


@scenario
async def unacknowledged_corrupt_batch(stage: Stage) -> None:
    """acks=0 with a corrupt batch closes the connection."""
    topic = await stage.create_topic()
    a = await stage.client()
    sent = a.send(
        "Produce", 9, acks=0, timeout=5_000, topic_data=[to(topic, RecordBatch(crc=1).encode())]
    )
    a.connection.forget(sent.call)
    await a.is_hung_up()
    await end(await stage.client("b"), topic)


@scenario
async def other_acknowledgements(stage: Stage) -> None:
    """Numbers other than -1, 0 and 1 are refused in every version."""
    topic = await stage.create_topic()
    a = await stage.client()
    for acks in (2, -2):
        await produce(a, topic, acks=acks)
        await produce(a, topic, version=3, acks=acks)
    await end(a, topic)


@scenario
async def unknown_topics_and_partitions(stage: Stage) -> None:
    """Unknown partitions are refused in every version, others appended; the response's order."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    none = stage.topic_named("none")
    for version in EVERY_VERSION:
        await produce(a, none, version=version)
    for partition in (2, -1):
        await produce(a, topic, topic_data=[to(topic, partition=partition)])
    data = [
        to(none),
        {"name": topic, "partition_data": [{"index": n, "records": GOOD} for n in (5, 0, 1)]},
    ]
    await produce(a, topic, topic_data=data)


@scenario
async def nothing(stage: Stage) -> None:
    """No topics, and a topic without partitions."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, topic_data=[])
    await produce(a, topic, topic_data=[{"name": topic, "partition_data": []}])


@scenario
async def no_records(stage: Stage) -> None:
    """No bytes in place of a batch."""
    topic = await stage.create_topic()
    for version in (3, 9, 12):
        await produce(await stage.client(f"v{version}"), topic, b"", version)
    await end(await stage.client("c"), topic)


@scenario
async def several_batches(stage: Stage) -> None:
    """Two batches for one partition are refused."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, GOOD + GOOD)
    await end(await stage.client("b"), topic)


@scenario
async def same_partition_twice(stage: Stage) -> None:
    """One partition twice in a request."""
    topic = await stage.create_topic()
    a = await stage.client()
    twice = [
        {"index": 0, "records": RecordBatch(records(value)).encode()} for value in (b"one", b"two")
    ]
    await produce(a, topic, topic_data=[{"name": topic, "partition_data": twice}])
    await end(await stage.client("b"), topic)


@scenario
async def corrupt_batches(stage: Stage) -> None:
    """A wrong CRC, length or size."""
    topic = await stage.create_topic()
    flipped = bytearray(GOOD)
    flipped[-1] ^= 1
    spoiled = {
        "crc": RecordBatch(crc=1).encode(),
        "last byte": bytes(flipped),
        "length too long": RecordBatch(length=10_000).encode(),
        "length too short": RecordBatch(length=20).encode(),
        "length negative": RecordBatch(length=-1).encode(),
        "cut in the records": GOOD[:-2],
        "cut in the header": GOOD[:30],
        "bytes behind": GOOD + b"\0\0\0",
    }
    for name, data in spoiled.items():
        client = await stage.client(name)
        await produce(client, topic, data)
    await end(await stage.client("z"), topic)


@scenario
async def inconsistent_batches(stage: Stage) -> None:
    """Correct CRCs over counts and deltas that do not fit."""
    topic = await stage.create_topic()
    two = records(b"a", b"b")
    spoiled = {
        "count too high": RecordBatch(two, count=3, last_offset_delta=1),
        "count too low": RecordBatch(two, count=1, last_offset_delta=1),
        "count negative": RecordBatch(two, count=-1, last_offset_delta=1),
        "last offset delta too high": RecordBatch(two, last_offset_delta=5),
        "last offset delta too low": RecordBatch(two, last_offset_delta=0),
        "base offset": RecordBatch(two, base_offset=7),
        "no records": RecordBatch((), count=0, last_offset_delta=-1),
    }
    for name, batch in spoiled.items():
        client = await stage.client(name)
        await produce(client, topic, batch.encode())
    await end(await stage.client("z"), topic)


@scenario
async def other_magics(stage: Stage) -> None:
    """Magic 2 alone is taken."""
    topic = await stage.create_topic()
    for magic in (0, 1, 3, -1):
        client = await stage.client(f"magic {magic}")
        await produce(client, topic, RecordBatch(magic=magic).encode())
        await produce(
            await stage.client(f"magic {magic} v3"), topic, RecordBatch(magic=magic).encode(), 3
        )


@scenario
async def leader_epoch_of_the_producer(stage: Stage) -> None:
    """The leader epoch that a producer writes is replaced."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, RecordBatch(leader_epoch=17).encode())
    await fetched(a, topic)


@scenario
async def too_large(stage: Stage) -> None:
    """More than max.message.bytes is refused in every version, by the size of the whole batch."""
    topic = await stage.create_topic(max_message_bytes="1000")
    a = await stage.client()
    overhead = len(RecordBatch(records(b"x" * 900)).encode()) - 900
    for version in EVERY_VERSION:
        await produce(a, topic, RecordBatch(records(b"x" * 2_000)).encode(), version)
    await produce(a, topic, RecordBatch(records(b"x" * (1_000 - overhead))).encode())
    await produce(a, topic, RecordBatch(records(b"x" * (1_001 - overhead))).encode())
    await end(a, topic)


@scenario
async def from_the_future(stage: Stage) -> None:
    """A timestamp more than an hour ahead is refused, and told which record it was."""
    topic = await stage.create_topic()
    a = await stage.client()
    mixed = RecordBatch(
        [
            BatchRecord(timestamp=1_000),
            BatchRecord(timestamp=TOO_FAR),
            BatchRecord(timestamp=TOO_FAR),
        ]
    ).encode()
    for version in (7, 8, 9, 12):
        await produce(a, topic, mixed, version)
    await end(a, topic)


@scenario
async def from_the_past(stage: Stage) -> None:
    """With message.timestamp.before.max.ms set, old records are refused one by one."""
    topic = await stage.create_topic(message_timestamp_before_max_ms="60000")
    a = await stage.client()
    await produce(a, topic)


@scenario
async def without_timestamps(stage: Stage) -> None:
    """Timestamp -1 is taken."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, RecordBatch([BatchRecord(timestamp=-1)]).encode())
    await fetched(a, topic)


@scenario
async def append_time(stage: Stage) -> None:
    """With LogAppendTime the broker's time is stored and in the response; the CRC holds again."""
    topic = await stage.create_topic(message_timestamp_type="LogAppendTime")
    a = await stage.client()
    for version in (3, 9, 12):
        await produce(
            a,
            topic,
            RecordBatch([BatchRecord(timestamp=5), BatchRecord(timestamp=9)]).encode(),
            version,
        )
    await fetched(a, topic)


@scenario
async def producer_says_append_time(stage: Stage) -> None:
    """The attribute for append time is the broker's to set."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, RecordBatch(attributes=LOG_APPEND_TIME).encode())
    await fetched(a, topic)


@scenario
async def compacted_topic_without_key(stage: Stage) -> None:
    """Records without a key are refused by a compacted topic one by one."""
    topic = await stage.create_topic(cleanup_policy="compact")
    a = await stage.client()
    mixed = RecordBatch(
        [BatchRecord(b"1", b"k"), BatchRecord(b"2"), BatchRecord(b"3", b"k"), BatchRecord(b"4")]
    ).encode()
    for version in (7, 8, 9):
        await produce(a, topic, mixed, version)
    await produce(a, topic, RecordBatch([BatchRecord(b"1", b""), BatchRecord(None, b"k")]).encode())
    await end(a, topic)


@scenario
async def control_batch(stage: Stage) -> None:
    """Control batches are not for clients."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, RecordBatch(attributes=0x20).encode())
    await end(await stage.client("b"), topic)


@scenario
async def keys_values_headers(stage: Stage) -> None:
    """Null, empty and long keys and values, headers: all is stored as it came."""
    topic = await stage.create_topic()
    a = await stage.client()
    items = [
        BatchRecord(None, None),
        BatchRecord(b"", b""),
        BatchRecord(b"v" * 5_000, b"k" * 500, headers=[("h", b"1"), ("h", b"2"), ("", b"")]),
    ]
    await produce(a, topic, RecordBatch(items).encode())
    await fetched(a, topic)


@scenario
async def unknown_codecs(stage: Stage) -> None:
    """Codecs 5, 6 and 7 do not exist."""
    topic = await stage.create_topic()
    for codec in (5, 6, 7):
        client = await stage.client(f"codec {codec}")
        await refused(client, topic, RecordBatch(attributes=codec).encode())
    await end(await stage.client("z"), topic)


@scenario
async def decompressed_size(stage: Stage) -> None:
    """A record above max.decompressed.message.bytes is refused only in a compressed batch."""
    topic = await stage.create_topic(max_decompressed_message_bytes="1000")
    a = await stage.client()
    for values in ((900,), (993,), (994,), (5_000,), (900, 900), (900, 994)):
        plain = RecordBatch(records(*(b"v" * size for size in values))).encode()
        body = gzip.compress(plain[BATCH_HEADER:], mtime=0)
        packed = RecordBatch(attributes=GZIP, count=len(values), body=body)
        await produce(a, topic, plain)
        await produce(a, topic, packed.encode())
        await end(a, topic)


@scenario
async def codecs_over_garbage(stage: Stage) -> None:
    """Bytes that the codec, or a reader of records, cannot read."""
    topic = await stage.create_topic()
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        client = await stage.client(f"codec {codec}")
        await refused(client, topic, RecordBatch(attributes=codec, body=b"\x99" * 30).encode())
    await refused(
        await stage.client("no codec"), topic, RecordBatch(count=1, body=b"\xff" * 20).encode()
    )
    await end(await stage.client("z"), topic)


@scenario
async def zstd_too_early(stage: Stage) -> None:
    """zstd before version 7 is an unsupported compression type."""
    topic = await stage.create_topic()
    for version in (3, 6):
        client = await stage.client(f"v{version}")
        await produce(client, topic, RecordBatch(attributes=ZSTD).encode(), version)


@scenario
async def internal_topic(stage: Stage) -> None:
    """Clients may not write to `__consumer_offsets`."""
    a = await stage.client()
    await produce(a, "__consumer_offsets")


@scenario
async def several_topics(stage: Stage) -> None:
    """Each partition has its own code: a good, a corrupt and an oversized batch in one request."""
    one, two = (
        await stage.create_topic("one", 2),
        await stage.create_topic("two", max_message_bytes="100"),
    )
    a = await stage.client()
    corrupt = RecordBatch(crc=1).encode()
    data = [
        {
            "name": one,
            "partition_data": [{"index": 1, "records": corrupt}, {"index": 0, "records": GOOD}],
        },
        to(two, RecordBatch(records(b"x" * 500)).encode()),
    ]
    await produce(a, one, topic_data=data)


@scenario
async def deleted_topic(stage: Stage) -> None:
    """A topic that was deleted is unknown."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic)
    await stage.delete_topic(topic)
    await produce(a, topic)


@scenario
async def usable_at_once(stage: Stage) -> None:
    """A partition in Metadata accepts appends: none is refused after a later one."""
    topic = await stage.create_topic()
    a = await stage.client()
    for value in (b"a", b"b", b"c"):
        await produce(a, topic, RecordBatch(records(value)).encode(), timeout=0)
