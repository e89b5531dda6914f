"""Fetch, ListOffsets and DeleteRecords by isolation level, around open and ended transactions."""

from __future__ import annotations

from kohort_conformance.producers import NEW, OLD, PlayedProducer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.fetching import BY_ID, BY_NAME, LARGE, fetch, fetching, part
from kohort_conformance.scenarios.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from kohort_conformance.scenarios.list_offsets import ask as list_offsets
from kohort_conformance.scenarios.produce import produce
from kohort_conformance.stage import Client, Stage, topic_id

UNCOMMITTED, COMMITTED = 0, 1
LEVELS = (UNCOMMITTED, COMMITTED)


async def read(client: Client, topic: str, offset: int = 0, version: int = 11) -> None:
    """Fetch from an offset at both isolation levels, recorded."""
    for level in LEVELS:
        await fetch(client, topic, part(offset=offset), version=version, isolation_level=level)


async def ends(client: Client, topic: str, *timestamps: int, version: int = 9) -> None:
    """ListOffsets (by default the latest offset) at both isolation levels, recorded."""
    for level in LEVELS:
        await list_offsets(
            client, topic, *timestamps or (LATEST,), version=version, isolation_level=level
        )


async def delete_records(client: Client, topic: str, offset: int) -> None:
    """DeleteRecords of partition 0 up to an offset, recorded."""
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    await client.ask("DeleteRecords", 2, topics=gone, timeout=5_000)


async def interleaved(stage: Stage) -> tuple[PlayedProducer, PlayedProducer, str]:
    """Batches of a (offset 0), b (1, 2), nobody (3) and a (4); both transactions are open."""
    topic = await stage.create_topic()
    a, b = await producer(stage), await producer(stage, "b")
    await a.open(topic)
    await b.open(topic, count=2)
    await produce(a.client, topic)
    await a.open(topic, sequence=1)
    return a, b, topic


@scenario
async def open_by_name(stage: Stage) -> None:
    """Committed records end before an open transaction, in every version with names."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=2)
    await produce(a.client, topic)
    for version in BY_NAME:
        await read(a.client, topic, version=version)
    await a.end(True)


@scenario
async def open_by_id(stage: Stage) -> None:
    """The same in every version with ids."""
    topic = await stage.create_topic()
    a = await producer(stage)
    known = await topic_id(a.client, topic)
    await produce(a.client, topic)
    await a.open(topic)
    for version in BY_ID:
        for level in LEVELS:
            await fetch(a.client, known, version=version, isolation_level=level)
    await a.close(False)
    for version in BY_ID:
        for level in LEVELS:
            await fetch(a.client, known, version=version, isolation_level=level)


@scenario
async def from_within_an_open_transaction(stage: Stage) -> None:
    """From the last stable offset on there is nothing; past the end is out of range."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=2)
    for offset in (1, 2, 3, 4):
        await read(a.client, topic, offset)
    await a.end(True)


@scenario
async def ended(stage: Stage) -> None:
    """Transactions that ended, by either protocol, with their markers."""
    topic = await stage.create_topic()
    for version in (OLD, NEW):
        for commit in (True, False):
            a = await producer(stage, f"v{version} {commit}")
            await a.open(topic)
            await a.end(commit, version)
    for version in (4, 11, 12):
        await read(a.client, topic, version=version)
    await ends(a.client, topic)


@scenario
async def aborted_by_name(stage: Stage) -> None:
    """Aborted transactions are listed for readers of committed records, in every version."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic, count=2)
    await a.close(False)
    for version in BY_NAME:
        await read(a.client, topic, version=version)


@scenario
async def aborted_from_every_offset(stage: Stage) -> None:
    """Transactions are listed from before their marker on."""
    topic = await stage.create_topic()
    a, b = await producer(stage), await producer(stage, "b")
    for one in (a, b):
        await one.open(topic, count=2)
        await one.close(False)
        await produce(one.client, topic)
    for offset in range(9):
        await read(a.client, topic, offset)


@scenario
async def interleaved_commit_first(stage: Stage) -> None:
    """The last stable offset waits for the transaction that began first."""
    a, b, topic = await interleaved(stage)
    await b.end(True)
    await read(a.client, topic)
    await ends(a.client, topic)
    await a.end(False)
    await read(a.client, topic)
    await ends(a.client, topic)


@scenario
async def interleaved_abort_first(stage: Stage) -> None:
    """It moves to the next open transaction."""
    a, b, topic = await interleaved(stage)
    await a.end(False)
    await read(a.client, topic)
    await ends(a.client, topic)
    await b.end(False)
    await read(a.client, topic)
    await read(a.client, topic, 1)
    await read(a.client, topic, 6)
    await ends(a.client, topic)


@scenario
async def one_producer_aborts_twice(stage: Stage) -> None:
    """Each aborted transaction of a producer is listed, with a committed one between them."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for commit in (False, True, False):
        await a.open_new(topic)
        await a.end(commit, NEW)
    for offset in range(7):
        await read(a.client, topic, offset)


@scenario
async def limited(stage: Stage) -> None:
    """With a limit of bytes the list is of the transactions in what is returned."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for _ in range(3):
        await a.open_new(topic)
        await a.close(False, NEW)
    for limit in (1, 100, 200, LARGE):
        for level in LEVELS:
            asked = part(max_bytes=limit)
            await fetch(a.client, topic, asked, isolation_level=level)


@scenario
async def without_data(stage: Stage) -> None:
    """Markers of transactions without data in the partition: nothing is listed."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    for commit in (True, False):
        await a.adding(topic, 0).quiet()
        await a.open(topic, 1, sequence=0 if commit else 1)
        await a.end(commit)
    await read(a.client, topic)
    await ends(a.client, topic)


@scenario
async def empty_transaction(stage: Stage) -> None:
    """A transaction that only added the partition holds nothing back."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.adding(topic).quiet()
    await produce(a.client, topic)
    await read(a.client, topic)
    await ends(a.client, topic)
    await a.end(True)


@scenario
async def waits_for_the_commit(stage: Stage) -> None:
    """A reader of committed records waits until the transaction ends."""
    topic = await stage.create_topic()
    for commit in (True, False):
        a = await producer(stage, f"commit {commit}")
        b = await stage.client(f"reader {commit}")
        end = 0 if commit else 2
        await a.open(topic)
        waits = {"max_wait": 15_000, "isolation_level": COMMITTED}
        parked = fetching(b, topic, part(offset=end), **waits)
        await parked.still_parked()
        await a.end(commit)
        await parked.response()


@scenario
async def waits_for_a_transaction_of_before(stage: Stage) -> None:
    """Another producer's commit does not wake a reader who is held back."""
    a, b, topic = await interleaved(stage)
    c = await stage.client("c")
    waits = {"max_wait": 15_000, "isolation_level": COMMITTED}
    parked = fetching(c, topic, part(), **waits)
    await b.end(True)
    await parked.still_parked()
    await a.end(True)
    await parked.response()


@scenario
async def sessions(stage: Stage) -> None:
    """In a session a partition is told again when its last stable offset has moved."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    asked = {"isolation_level": COMMITTED, "max_wait": 0}
    first = await fetch(a.client, topic, session_epoch=0, **asked)
    going_on = {**asked, "session_id": first["session_id"], "topics": []}
    await a.client.ask("Fetch", 11, session_epoch=1, **going_on)
    await a.close(False)
    await a.client.ask("Fetch", 11, session_epoch=2, **going_on)
    await a.client.ask("Fetch", 11, session_epoch=3, **going_on)


@scenario
async def latest_in_every_version(stage: Stage) -> None:
    """The latest offset is the last stable one; the earliest is the same."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=3)
    for version in range(2, 11):
        await ends(a.client, topic, LATEST, EARLIEST, version=version)
    await a.end(True)
    await ends(a.client, topic)


@scenario
async def by_time(stage: Stage) -> None:
    """Records from the last stable offset on are not found."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=3)
    for version in (2, 9):
        await ends(a.client, topic, 0, 1_000, 1_001, 1_002, 9_000, version=version)
    await a.close(False)
    await ends(a.client, topic, 0, 1_000, 1_001, 1_002, 9_000)


@scenario
async def largest_timestamp(stage: Stage) -> None:
    """The record with the largest timestamp, in an open and an aborted transaction."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=3)
    await ends(a.client, topic, MAX_TIMESTAMP)
    await a.end(True)


@scenario
async def records_are_deleted_to_the_end(stage: Stage) -> None:
    """DeleteRecords goes past an open transaction, and the last stable offset with it."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await produce(a.client, topic)
    await a.open(topic, count=2)
    await delete_records(a.client, topic, -1)
    await ends(a.client, topic, EARLIEST, LATEST)
    await read(a.client, topic, 3)
    await produce(a.client, topic)
    await ends(a.client, topic, EARLIEST, LATEST)
    await read(a.client, topic, 3)
    await a.end(False)
    await ends(a.client, topic, EARLIEST, LATEST)
    await read(a.client, topic, 3)


@scenario
async def records_are_deleted_within(stage: Stage) -> None:
    """DeleteRecords into the middle of an open transaction."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic, count=2)
    await a.open(topic, sequence=2)
    await delete_records(a.client, topic, 1)
    await ends(a.client, topic, EARLIEST, LATEST)
    await read(a.client, topic, 1)
    await delete_records(a.client, topic, 2)
    await read(a.client, topic, 2)
    await a.end(False)
    await ends(a.client, topic, EARLIEST, LATEST)
    await read(a.client, topic, 2)


@scenario
async def records_are_deleted_after_an_abort(stage: Stage) -> None:
    """Aborted transactions whose records are gone are listed while their marker is there."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for _ in range(2):
        await a.open_new(topic, count=2)
        await a.close(False, NEW)
    for offset in (1, 2, 3, 5):
        await delete_records(a.client, topic, offset)
        await read(a.client, topic, offset)
