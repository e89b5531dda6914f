"""Transactional Produce: verification by the coordinator, sequences, and batches out of place."""

from __future__ import annotations

from functools import partial
from typing import Any

from kohort_conformance.batches import CONTROL, TRANSACTIONAL
from kohort_conformance.producers import NEW, OLD, PlayedProducer, newcomer, producer, steady
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.idempotence import numbered
from kohort_conformance.scenarios.produce import GOOD, fetched, produce, to
from kohort_conformance.scenarios.transaction_partitions import covered
from kohort_conformance.stage import Stage, topic_id

VERIFIED = range(3, 12)
"""Versions by which a partition has to be added first."""
EVERY_VERSION = range(3, 13)
NOBODY = 2**60


@scenario
async def added_first_in_every_version(stage: Stage) -> None:
    """Batches to a partition that was added to the transaction."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.add(topic)
    for sequence, version in enumerate(EVERY_VERSION):
        await a.write(topic, a.batch(sequence), version)
    await a.end(True)
    await fetched(a.client, topic)


@scenario
async def not_added(stage: Stage) -> None:
    """A partition that is not in the transaction, in no transaction and in an open one."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    for version in VERIFIED:
        await a.write_refused(topic, version=version)
    await a.adding(topic, 1).quiet()
    for version in VERIFIED:
        await a.write_refused(topic, version=version)
    await covered(a)
    await fetched(a.client, topic)
    await a.end(False)


@scenario
async def added_by_the_write(stage: Stage) -> None:
    """The first batch of version 12 adds its partition."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    for commit in (True, False):
        await a.write(topic, version=12)
        await a.write(topic, a.batch(1), version=12)
        await covered(a)
        await a.write(topic, version=12, partition=1)
        await covered(a)
        await a.end(commit, NEW)
    await fetched(a.client, topic)


@scenario
async def added_by_the_write_with_a_topic_id(stage: Stage) -> None:
    """So does version 13."""
    topic = await stage.create_topic()
    known = await topic_id(await stage.client("z"), topic)
    a = await producer(stage)
    data = [{"topic_id": known, "partition_data": [{"index": 0, "records": a.batch()}]}]
    request: dict[str, Any] = {"acks": -1, "timeout": 5_000, "topic_data": data}
    await a.client.ask("Produce", 13, transactional_id=a.transactional_id, **request)
    await covered(a)
    await a.end(True, NEW)


@scenario
async def by_strangers(stage: Stage) -> None:
    """An unknown transactional id, another producer id, other epochs, the empty id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    unknown = PlayedProducer(a.client, f"none{stage.suffix}", a.id, a.epoch)
    empty = PlayedProducer(a.client, "", a.id, a.epoch)
    for version in EVERY_VERSION:
        await unknown.write(topic, version=version)
        await empty.write(topic, version=version)
        await a.write(topic, a.batch(producer_id=NOBODY), version)
        await a.write(topic, a.batch(producer_epoch=0), version)
        await a.write(topic, a.batch(producer_epoch=7), version)
    await covered(a)
    await fetched(a.client, topic)


@scenario
async def by_the_epoch_before_the_end(stage: Stage) -> None:
    """The epoch that an end has bumped is fenced, also where nothing was written."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    await a.open_new(topic)
    await a.close(True, NEW)
    for partition in (0, 1):
        for version in EVERY_VERSION:
            await a.write(topic, a.batch(1, producer_epoch=0), version, partition)


@scenario
async def by_a_producer_that_was_fenced(stage: Stage) -> None:
    """A second producer of the id has aborted the transaction."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    b = await newcomer(stage, "b", "a")
    await b.init()
    for version in EVERY_VERSION:
        await a.write(topic, a.batch(1), version)
    await b.write(topic, version=12)
    await b.end(True, NEW)
    await fetched(b.client, topic)


@scenario
async def without_a_transactional_id(stage: Stage) -> None:
    """A transactional batch needs the request to have a transactional id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    for version in (3, 9, 11, 12):
        await produce(a.client, topic, a.batch(1), version)
    await a.end(True)


@scenario
async def plain_batches_with_a_transactional_id(stage: Stage) -> None:
    """Batches that are not transactional, with a transactional id: with and without a producer."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    for version in (9, 12):
        await a.write(topic, GOOD, version)
        await a.write(topic, a.batch(attributes=0), version, 1)
    await covered(a)
    await fetched(a.client, topic)


@scenario
async def plain_batch_while_open(stage: Stage) -> None:
    """A producer with an open transaction writes nothing outside of it."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    await produce(a.client, topic, numbered(a.id, 1))
    await a.write(topic, a.batch(1, attributes=0))
    await produce(a.client, topic)
    await a.write(topic, a.batch(1))
    await a.end(True)
    await produce(a.client, topic, numbered(a.id, 2))
    await fetched(a.client, topic)


@scenario
async def two_producers_in_a_request(stage: Stage) -> None:
    """Transactional batches of one request are of one producer."""
    topic = await stage.create_topic(partitions=2)
    a, b = await producer(stage), await producer(stage, "b")
    for batch in (b.batch(), a.batch(producer_epoch=3), numbered(b.id, 0)):
        for version in (9, 12):
            data = [{"index": 0, "records": a.batch()}, {"index": 1, "records": batch}]
            request = {"acks": -1, "topic_data": [{"name": topic, "partition_data": data}]}
            send = partial(a.client.send, "Produce", version, **request)
            await steady(partial(send, transactional_id=a.transactional_id))
    await covered(a)


@scenario
async def one_of_two_is_not_added(stage: Stage) -> None:
    """Each partition of a request has its own error; the others are written."""
    topic = await stage.create_topic(partitions=2)
    for version in (9, 11, 12):
        a = await producer(stage, f"v{version}")
        await a.adding(topic, 1).quiet()
        data = [{"index": one, "records": a.batch()} for one in (0, 1, 7)]
        request = {"acks": -1, "topic_data": [{"name": topic, "partition_data": data}]}
        send = partial(a.client.send, "Produce", version, **request)
        await steady(partial(send, transactional_id=a.transactional_id))
        await covered(a)
        await a.end(True)


@scenario
async def acknowledgements(stage: Stage) -> None:
    """Transactional batches are acknowledged as others."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for sequence, acks in enumerate((1, -1)):
        await produce(
            a.client,
            topic,
            version=12,
            acks=acks,
            transactional_id=a.transactional_id,
            topic_data=[to(topic, a.batch(sequence))],
        )
    await a.end(True, NEW)


@scenario
async def unacknowledged(stage: Stage) -> None:
    """acks=0 adds the partition too; a partition that is not added closes the connection."""
    topic = await stage.create_topic()
    a = await producer(stage)
    request = {"acks": 0, "transactional_id": a.transactional_id, "timeout": 5_000}
    for version in (12, 9):
        data = to(topic, a.batch(0 if version == 12 else 1))
        sent = a.client.send("Produce", version, topic_data=[data], **request)
        a.client.connection.forget(sent.call)
        await covered(a)
    await a.end(True, NEW)
    await fetched(a.client, topic)
    sent = a.client.send("Produce", 9, topic_data=[to(topic, a.batch())], **request)
    a.client.connection.forget(sent.call)
    await a.client.is_hung_up()


@scenario
async def other_acknowledgements(stage: Stage) -> None:
    """Other numbers are refused."""
    topic = await stage.create_topic()
    for version in (9, 12):
        a = await producer(stage, f"v{version}")
        await a.adding(topic).quiet()
        await produce(
            a.client,
            topic,
            version=version,
            acks=2,
            transactional_id=a.transactional_id,
            topic_data=[to(topic, a.batch())],
        )


@scenario
async def unreadable_batches(stage: Stage) -> None:
    """Two batches, a wrong magic and none: in a partition that is not in the transaction."""
    topic = await stage.create_topic()
    for name, values in {"magic 1": {"magic": 1}, "magic 3": {"magic": 3}, "two": {}}.items():
        for version in (9, 12):
            a = await producer(stage, f"{name} v{version}")
            data = a.batch(**values)
            await a.write_refused(topic, data + data if name == "two" else data, version)
            await covered(a)


@scenario
async def control_batches(stage: Stage) -> None:
    """Markers are not for clients."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    for version in (9, 12):
        await a.write(topic, a.batch(1, attributes=TRANSACTIONAL | CONTROL), version)
    await a.end(True)


@scenario
async def half_of_the_numbers(stage: Stage) -> None:
    """A transactional batch without a producer epoch or sequence."""
    topic = await stage.create_topic()
    for name, values in {
        "no epoch": {"producer_epoch": -1},
        "no sequence": {"base_sequence": -1},
    }.items():
        for version in (9, 12):
            a = await producer(stage, f"{name} v{version}")
            await a.write_refused(topic, a.batch(**values), version)


@scenario
async def without_a_producer(stage: Stage) -> None:
    """A transactional batch that belongs to no producer."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in (9, 12):
        nobody = a.batch(producer_id=-1, producer_epoch=-1, base_sequence=-1)
        await a.write(topic, nobody, version)
    await covered(a)


@scenario
async def sequences_of_the_old_protocol(stage: Stage) -> None:
    """Sequences go on from transaction to transaction."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic, count=2)
    await a.close(True)
    await a.adding(topic).quiet()
    for sequence in (0, 3, 2, 2, 4, 3):
        await a.write(topic, a.batch(sequence))
    await a.end(False)
    await fetched(a.client, topic)


@scenario
async def sequences_of_the_new_protocol(stage: Stage) -> None:
    """Every transaction begins with sequence 0."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open_new(topic, count=2)
    await a.close(True, NEW)
    for sequence in (2, 1, 0, 0, 2, 1):
        await a.write(topic, a.batch(sequence), 12)
    await a.end(False, NEW)
    await fetched(a.client, topic)


@scenario
async def first_sequence_is_not_zero(stage: Stage) -> None:
    """In a partition that does not know the producer: taken by the old protocol, not the new."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.write(topic, a.batch(5), 12)
    await covered(a)
    await a.write(topic, a.batch(0), 12)
    await a.end(True, NEW)
    b = await producer(stage, "b")
    await b.add(topic)
    await b.write(topic, b.batch(5))
    await b.write(topic, b.batch(6))
    await b.end(True)


@scenario
async def duplicates(stage: Stage) -> None:
    """A batch again gets its old offset, after the end too by the old protocol."""
    topic = await stage.create_topic()
    for version in (OLD, NEW):
        a = await producer(stage, f"v{version}")
        produce_version = 12 if version == NEW else 9
        await a.adding(topic).quiet()
        data = a.batch()
        for _ in range(2):
            await a.write(topic, data, produce_version)
        await a.end(True, version)
        await a.write_refused(topic, data, produce_version)


@scenario
async def after_the_end(stage: Stage) -> None:
    """A partition of the last transaction has to be added again."""
    topic = await stage.create_topic()
    for commit in (True, False):
        a = await producer(stage, f"commit {commit}")
        await a.open(topic)
        await a.close(commit)
        for version in VERIFIED:
            await a.write_refused(topic, a.batch(1), version)
        await a.write(topic, a.batch(1), 12)
        await a.end(True)


@scenario
async def refused_batches(stage: Stage) -> None:
    """A corrupt or oversized batch leaves the transaction open."""
    topic = await stage.create_topic(max_message_bytes="300")
    a = await producer(stage)
    await a.write(topic, a.batch(crc=1), 12)
    await covered(a)
    await a.write(topic, a.batch(count=100), 12)
    await covered(a)
    await a.end(True, NEW)
    await fetched(a.client, topic)


@scenario
async def after_delete_records(stage: Stage) -> None:
    """When the records of an open transaction are deleted, it goes on."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    await a.client.ask("DeleteRecords", 2, topics=gone, timeout=5_000)
    await a.write(topic, a.batch(1))
    await a.end(False)
    await fetched(a.client, topic)
