"""InitProducerId and the sequence numbers of idempotent producers (KIP-98, KIP-360)."""

from __future__ import annotations

from kohort_conformance.batches import RecordBatch, records
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.produce import end, fetched, produce, to
from kohort_conformance.stage import Client, Stage

MAX_SEQUENCE = 2**31 - 1


async def new_producer(client: Client) -> int:
    """A producer id, unrecorded."""
    response = await client.quiet(
        "InitProducerId", 4, transactional_id=None, transaction_timeout=60_000
    )
    return int(response["producer_id"])


def numbered(producer: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """A batch of `count` records of this producer."""
    values = records(*[b"v"] * count)
    return RecordBatch(
        values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    ).encode()


@scenario
async def producer_ids(stage: Stage) -> None:
    """Every version gives an id and epoch 0; no id is given twice."""
    a = await stage.client()
    ids = []
    for version in range(6):
        response = await a.ask(
            "InitProducerId", version, transactional_id=None, transaction_timeout=60_000
        )
        ids.append(response.get("producer_id"))
    stage.note("all different", len(set(ids)) == len(ids))


@scenario
async def odd_requests(stage: Stage) -> None:
    """The timeout does not matter without a transactional id; the empty one is invalid."""
    a = await stage.client()
    for timeout in (0, -1, 2**31 - 1):
        await a.ask("InitProducerId", 4, transactional_id=None, transaction_timeout=timeout)
    for version in (0, 4):
        await a.ask("InitProducerId", version, transactional_id="", transaction_timeout=60_000)


@scenario
async def with_an_id_of_before(stage: Stage) -> None:
    """Without a transactional id, the id and epoch of before are not looked at.

    Half of the pair is invalid.
    """
    a = await stage.client()
    producer = await new_producer(a)
    for before, epoch in ((producer, 0), (producer, -1), (-1, 0)):
        await a.ask(
            "InitProducerId",
            4,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=before,
            producer_epoch=epoch,
        )


@scenario
async def in_order(stage: Stage) -> None:
    """Sequences count records, from 0 on; stored batches keep producer, epoch and sequence."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    for sequence, count in ((0, 1), (1, 3), (4, 1)):
        await produce(a, topic, numbered(producer, sequence, count))
    await fetched(a, topic)


@scenario
async def duplicates(stage: Stage) -> None:
    """Each of the last five batches again gets its old offset; nothing is appended."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    for sequence in range(5):
        await produce(a, topic, numbered(producer, sequence))
    for sequence in (4, 0, 2):
        for version in (3, 9):
            await produce(a, topic, numbered(producer, sequence), version)
    await end(a, topic)


@scenario
async def old_duplicates(stage: Stage) -> None:
    """A batch older than the last five is a duplicate whose offset is forgotten."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    for sequence in range(7):
        await produce(a, topic, numbered(producer, sequence))
    await produce(a, topic, numbered(producer, 0))
    await produce(a, topic, numbered(producer, 2))
    await end(a, topic)


@scenario
async def gaps(stage: Stage) -> None:
    """A sequence that skips is out of order; the right one is still taken."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0))
    for version in (3, 7, 9, 12):
        await produce(a, topic, numbered(producer, 2), version)
    await produce(a, topic, numbered(producer, 1))
    await end(a, topic)


@scenario
async def overlaps(stage: Stage) -> None:
    """A batch that begins in the middle of a stored one, or is longer than it, is out of order."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0, 4))
    for sequence, count in ((2, 4), (0, 5), (0, 2), (1, 3), (3, 1)):
        await produce(a, topic, numbered(producer, sequence, count))
    await produce(a, topic, numbered(producer, 4))
    await end(a, topic)


@scenario
async def first_sequence_is_not_zero(stage: Stage) -> None:
    """A producer that the partition does not know may begin anywhere."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 5))
    await produce(a, topic, numbered(producer, 6))
    await produce(a, topic, numbered(producer, 0))
    await end(a, topic)


@scenario
async def epochs(stage: Stage) -> None:
    """A newer epoch must begin at 0; an older one is fenced from then on."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0))
    await produce(a, topic, numbered(producer, 1, epoch=1))
    await produce(a, topic, numbered(producer, 0, epoch=1))
    for version in (3, 9):
        await produce(a, topic, numbered(producer, 1, epoch=0), version)
    await produce(a, topic, numbered(producer, 1, epoch=1))
    await end(a, topic)


@scenario
async def half_of_the_numbers(stage: Stage) -> None:
    """A producer id without an epoch or sequence."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    for epoch, sequence in ((-1, 0), (0, -1), (-1, -1)):
        client = await stage.client(f"epoch {epoch} sequence {sequence}")
        await produce(client, topic, numbered(producer, sequence, epoch=epoch))
    await end(await stage.client("z"), topic)


@scenario
async def unknown_producer_id(stage: Stage) -> None:
    """Ids that the server never gave are not looked up."""
    topic = await stage.create_topic()
    a = await stage.client()
    await produce(a, topic, numbered(987_654_321_987, 0))
    await produce(a, topic, numbered(987_654_321_987, 1))


@scenario
async def producers_are_told_apart(stage: Stage) -> None:
    """Two producers count on their own, in each partition."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    one, two = await new_producer(a), await new_producer(a)
    await produce(a, topic, numbered(one, 0))
    await produce(a, topic, numbered(two, 0))
    await produce(a, topic, topic_data=[to(topic, numbered(one, 0), partition=1)])
    await produce(a, topic, numbered(one, 1))
    await end(a, topic)


@scenario
async def sequences_wrap(stage: Stage) -> None:
    """After 2^31 - 1 comes 0."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, MAX_SEQUENCE - 1, 2))
    await produce(a, topic, numbered(producer, 0))
    await produce(a, topic, numbered(producer, 1))
    await end(a, topic)


@scenario
async def wrap_inside_a_batch(stage: Stage) -> None:
    """A batch may hold both ends of the count."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, MAX_SEQUENCE, 3))
    await produce(a, topic, numbered(producer, 2))
    await produce(a, topic, numbered(producer, MAX_SEQUENCE, 3))
    await end(a, topic)


@scenario
async def mixed_with_plain_batches(stage: Stage) -> None:
    """Batches without a producer id do not disturb the sequences."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0))
    await produce(a, topic)
    await produce(a, topic, numbered(producer, 1))
    await produce(a, topic, numbered(producer, 0))
    await end(a, topic)


@scenario
async def after_delete_records(stage: Stage) -> None:
    """When the producer's records are deleted, its sequences are still known."""
    topic = await stage.create_topic()
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0))
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    await a.quiet("DeleteRecords", 2, topics=gone, timeout=5_000)
    await produce(a, topic, numbered(producer, 2))
    await produce(a, topic, numbered(producer, 1))


@scenario
async def refused_batch_does_not_count(stage: Stage) -> None:
    """A batch that is refused for another reason does not move the sequence."""
    topic = await stage.create_topic(max_message_bytes="300")
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0, 100))
    await produce(a, topic, numbered(producer, 0))
    await end(a, topic)
