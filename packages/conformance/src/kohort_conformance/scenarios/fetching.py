"""Fetch without a session: ranges, limits, waiting, epochs, names and ids, in every version."""

from __future__ import annotations

import time
import uuid
from typing import Any

from kohort_conformance.batches import RecordBatch, records
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.produce import GOOD, to
from kohort_conformance.stage import Client, Parked, Stage, topic_id

BY_NAME = range(4, 13)
BY_ID = range(13, 19)
LARGE = 1 << 20


def part(
    partition: int = 0, offset: int = 0, max_bytes: int = LARGE, **values: Any
) -> dict[str, Any]:
    """One partition of a Fetch."""
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
        **values,
    }


def fetching(
    client: Client, topic: str | uuid.UUID | None, *parts: Any, version: int = 11, **values: Any
) -> Parked:
    """Send a Fetch of one topic, by name or by id, that does not wait unless told to."""
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    asked = {
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": LARGE,
        "topics": [{**name, "partitions": parts or [part()]}],
    }
    return client.send("Fetch", version, **{**asked, **values})


async def fetch(
    client: Client, topic: str | uuid.UUID | None, *parts: Any, version: int = 11, **values: Any
) -> dict[str, Any]:
    """Fetch of one topic, recorded."""
    return await fetching(client, topic, *parts, version=version, **values).response()


async def fill(
    client: Client, topic: str, partition: int = 0, batches: int = 3, size: int = 100
) -> None:
    """Batches of two records of `size` bytes each, unrecorded."""
    for number in range(batches):
        data = RecordBatch(
            records(b"x" * size, b"y" * size, timestamp=1_000 * (number + 1))
        ).encode()
        sent = {"acks": -1, "timeout": 5_000, "topic_data": [to(topic, data, partition)]}
        await client.quiet("Produce", 9, **sent)


async def filled(stage: Stage) -> tuple[Client, str]:
    """A topic with three batches at offsets 0, 2 and 4, and a client."""
    topic = await stage.create_topic()
    a = await stage.client()
    await fill(a, topic)
    return a, topic


@scenario
async def every_version_by_name(stage: Stage) -> None:
    """Versions 4 to 12."""
    a, topic = await filled(stage)
    for version in BY_NAME:
        await fetch(a, topic, version=version)


@scenario
async def every_version_by_id(stage: Stage) -> None:
    """Versions 13 to 18."""
    a, topic = await filled(stage)
    known = await topic_id(a, topic)
    for version in BY_ID:
        await fetch(a, known, version=version)


@scenario
async def offsets(stage: Stage) -> None:
    """From the start, a batch's middle, the last record, the end, beyond it, and below 0."""
    a, topic = await filled(stage)
    for offset in (0, 2, 3, 5, 6, 7, -1, 2**62):
        await fetch(a, topic, part(offset=offset))


@scenario
async def empty_partition(stage: Stage) -> None:
    """A partition without records, in versions of each kind."""
    topic = await stage.create_topic()
    a = await stage.client()
    for version in (4, 5, 7, 11, 12):
        await fetch(a, topic, version=version)
    await fetch(a, await topic_id(a, topic), version=18)


@scenario
async def below_the_log_start(stage: Stage) -> None:
    """Offsets of deleted records are out of range; the response has the log start."""
    a, topic = await filled(stage)
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    await a.quiet("DeleteRecords", 2, topics=gone, timeout=5_000)
    for offset in (0, 2, 3, 4):
        await fetch(a, topic, part(offset=offset))


@scenario
async def unknown_names(stage: Stage) -> None:
    """Topics and partitions that do not exist, in every version by name."""
    a, topic = await filled(stage)
    for version in BY_NAME:
        await fetch(a, stage.topic_named("none"), version=version)
    for partition in (1, -1):
        await fetch(a, topic, part(partition))


@scenario
async def unknown_ids(stage: Stage) -> None:
    """Ids that nobody has, also the zero id."""
    a, topic = await filled(stage)
    known = await topic_id(a, topic)
    for version in BY_ID:
        await fetch(a, uuid.UUID(int=7), version=version)
    await fetch(a, None, version=13)
    await fetch(a, known, part(9), version=18)


@scenario
async def known_and_unknown(stage: Stage) -> None:
    """Errors and records side by side, in the order asked or not: what Kafka does."""
    a, topic = await filled(stage)
    none = stage.topic_named("none")
    topics = [
        {"topic": none, "partitions": [part()]},
        {"topic": topic, "partitions": [part(0, 4), part(5)]},
    ]
    response = await fetching(a, topic, topics=topics).quiet()
    told = [
        [one["topic"], other["partition_index"], other["error_code"], other["records"]]
        for one in response["responses"]
        for other in one["partitions"]
    ]
    stage.note("answers", sorted(told, key=str))


@scenario
async def nothing_asked(stage: Stage) -> None:
    """No topics at all, and a topic without partitions."""
    a, topic = await filled(stage)
    await fetch(a, topic, topics=[], min_bytes=0)
    await fetch(a, topic, topics=[{"topic": topic, "partitions": []}], min_bytes=0)
    await fetch(a, topic, topics=[], max_wait=300)


@scenario
async def partition_limit(stage: Stage) -> None:
    """A limit cuts the records off anywhere, but the first batch always comes whole."""
    a, topic = await filled(stage)
    size = len(RecordBatch(records(b"x" * 100, b"y" * 100)).encode())
    for limit in (0, 1, size - 1, size, size + 1, 2 * size, 3 * size + 5):
        await fetch(a, topic, part(max_bytes=limit))
        await fetch(a, topic, part(offset=3, max_bytes=limit))


@scenario
async def whole_limit(stage: Stage) -> None:
    """The limit of the whole response is used up partition by partition.

    The first batch of all comes whole.
    """
    topic = await stage.create_topic(partitions=3)
    a = await stage.client()
    for partition in range(3):
        await fill(a, topic, partition)
    size = len(RecordBatch(records(b"x" * 100, b"y" * 100)).encode())
    for limit in (0, 1, size, 3 * size, 4 * size, 7 * size):
        await fetch(a, topic, *[part(n) for n in (2, 0, 1)], max_bytes=limit)


@scenario
async def same_partition_twice(stage: Stage) -> None:
    """A partition named twice."""
    a, topic = await filled(stage)
    await fetch(a, topic, part(offset=0), part(offset=4))


@scenario
async def waits_for_records(stage: Stage) -> None:
    """At the end of the log the response waits, and comes as soon as there is enough."""
    a, topic = await filled(stage)
    b = await stage.client("b")
    parked = fetching(a, topic, part(offset=6), max_wait=10_000)
    await parked.still_parked()
    began = time.monotonic()
    await fill(b, topic, batches=1)
    await parked.response()
    stage.note("at once", time.monotonic() - began < 2)


@scenario
async def waits_no_longer_than_told(stage: Stage) -> None:
    """Without records the response comes after max_wait, with no error."""
    a, topic = await filled(stage)
    began = time.monotonic()
    await fetch(a, topic, part(offset=6), max_wait=500)
    stage.note("after about half a second", 0.45 <= time.monotonic() - began < 2)


@scenario
async def minimum_bytes(stage: Stage) -> None:
    """The response waits until so many bytes are there in all its partitions."""
    topic = await stage.create_topic(partitions=2)
    a, b = await stage.client("a"), await stage.client("b")
    size = len(RecordBatch(records(b"x" * 100, b"y" * 100)).encode())
    parked = fetching(a, topic, part(0), part(1), max_wait=10_000, min_bytes=2 * size)
    await fill(b, topic, 0, 1)
    await parked.still_parked()
    await fill(b, topic, 1, 1)
    await parked.response()


@scenario
async def minimum_of_zero(stage: Stage) -> None:
    """With min_bytes 0 nothing waits."""
    a, topic = await filled(stage)
    began = time.monotonic()
    await fetch(a, topic, part(offset=6), max_wait=5_000, min_bytes=0)
    stage.note("at once", time.monotonic() - began < 2)


@scenario
async def errors_do_not_wait(stage: Stage) -> None:
    """An offset out of range gets its error at once, also beside a partition that could wait."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    began = time.monotonic()
    await fetch(a, topic, part(offset=99), max_wait=5_000)
    await fetch(a, topic, part(0), part(1, 99), max_wait=5_000)
    stage.note("at once", time.monotonic() - began < 2)


@scenario
async def unknown_alone_does_not_wait(stage: Stage) -> None:
    """A Fetch of partitions that do not exist gets its response at once."""
    a, topic = await filled(stage)
    began = time.monotonic()
    await fetch(a, stage.topic_named("none"), max_wait=5_000)
    await fetch(a, topic, part(7), max_wait=5_000)
    stage.note("at once", time.monotonic() - began < 2)


@scenario
async def unknown_beside_a_waiting_partition(stage: Stage) -> None:
    """A partition that does not exist, beside one at its end: the response waits for the latter."""
    a, topic = await filled(stage)
    began = time.monotonic()
    await fetch(a, topic, part(offset=6), part(7), max_wait=1_000)
    stage.note("after about a second", 0.9 <= time.monotonic() - began < 3)


@scenario
async def more_than_there_is(stage: Stage) -> None:
    """With min_bytes never reached, what there is comes after max_wait."""
    a, topic = await filled(stage)
    began = time.monotonic()
    await fetch(a, topic, max_wait=500, min_bytes=1 << 30)
    stage.note("after about half a second", 0.45 <= time.monotonic() - began < 2)


@scenario
async def read_committed(stage: Stage) -> None:
    """Isolation level 1 tells a list of aborted transactions, which is empty."""
    a, topic = await filled(stage)
    for version in (4, 11, 12):
        await fetch(a, topic, part(offset=4), version=version, isolation_level=1)
    await fetch(a, topic, part(offset=6), isolation_level=1)
    await fetch(a, topic, part(offset=9), isolation_level=1)


@scenario
async def leader_epochs(stage: Stage) -> None:
    """A current leader epoch above the partition's is unknown, below it fenced, -1 not checked."""
    a, topic = await filled(stage)
    for epoch in (-1, 0, 1, 9):
        for version in (9, 12):
            await fetch(a, topic, part(offset=4, current_leader_epoch=epoch), version=version)
    await fetch(a, topic, part(offset=4, current_leader_epoch=-2))


@scenario
async def last_fetched_epochs(stage: Stage) -> None:
    """From version 12 on the epoch of the last record fetched is checked against the log."""
    a, topic = await filled(stage)
    for epoch in (-1, 0, 1):
        await fetch(
            a, topic, part(offset=4, last_fetched_epoch=epoch, current_leader_epoch=0), version=12
        )
    await fetch(a, topic, part(offset=9, last_fetched_epoch=0, current_leader_epoch=0), version=12)


@scenario
async def large_batch(stage: Stage) -> None:
    """A batch larger than both limits comes whole when it is the first."""
    topic = await stage.create_topic()
    a = await stage.client()
    await fill(a, topic, batches=1, size=100_000)
    await fill(a, topic, batches=1)
    await fetch(a, topic, part(max_bytes=10), max_bytes=10)
    await fetch(a, topic, part(offset=1, max_bytes=10), max_bytes=10)


@scenario
async def rack(stage: Stage) -> None:
    """A rack id (version 11) changes nothing where there is one broker."""
    a, topic = await filled(stage)
    await fetch(a, topic, part(offset=4), rack_id="r1")


@scenario
async def deleted_topic(stage: Stage) -> None:
    """A topic that was deleted is unknown by name and by id."""
    a, topic = await filled(stage)
    known = await topic_id(a, topic)
    await stage.delete_topic(topic)
    await fetch(a, topic)
    await fetch(a, known, version=17)


@scenario
async def several_topics(stage: Stage) -> None:
    """Topics and partitions come in the order asked."""
    one, two = await stage.create_topic("one", 2), await stage.create_topic("two")
    a = await stage.client()
    for name, partition in ((one, 0), (one, 1), (two, 0)):
        await fill(a, name, partition, 1)
    topics = [
        {"topic": two, "partitions": [part()]},
        {"topic": one, "partitions": [part(1), part(0)]},
    ]
    await fetch(a, one, topics=topics)


@scenario
async def request_behind_a_parked_fetch(stage: Stage) -> None:
    """A request pipelined behind a waiting Fetch gets its response after it."""
    a, topic = await filled(stage)
    parked = fetching(a, topic, part(offset=6), max_wait=700)
    behind = a.send("Metadata", 9, topics=[])
    await behind.still_parked()
    await parked.response()
    await behind.response()


@scenario
async def read_what_was_acknowledged(stage: Stage) -> None:
    """Records acknowledged to a producer can be fetched at once."""
    topic = await stage.create_topic()
    a = await stage.client()
    for _ in range(3):
        await a.quiet("Produce", 9, acks=1, timeout=5_000, topic_data=[to(topic, GOOD)])
        response = await fetching(a, topic).quiet()
        partition = response["responses"][0]["partitions"][0]
        stage.note("batches", [partition["high_watermark"], len(partition["records"])])
