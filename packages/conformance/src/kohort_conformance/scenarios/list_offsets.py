"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from kohort_conformance.batches import BatchRecord, RecordBatch
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.produce import produce, to
from kohort_conformance.stage import Client, Stage

EVERY_VERSION = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)


async def ask(
    client: Client,
    topic: str,
    *timestamps: int,
    version: int = 9,
    partition: int = 0,
    **values: Any,
) -> None:
    """ListOffsets of one partition, one request for each timestamp, recorded."""
    isolation = values.pop("isolation_level", 0)
    for timestamp in timestamps:
        asked = {
            "partition_index": partition,
            "current_leader_epoch": -1,
            "timestamp": timestamp,
            **values,
        }
        topics = [{"name": topic, "partitions": [asked]}]
        await client.ask(
            "ListOffsets",
            version,
            replica_id=-1,
            isolation_level=isolation,
            topics=topics,
            timeout=5_000,
        )


async def filled(stage: Stage) -> tuple[Client, str]:
    """Records with timestamps 1000, 3000, 2000 | 5000, 4000 | 4500 in three batches."""
    topic = await stage.create_topic()
    a = await stage.client()
    for timestamps in ((1_000, 3_000, 2_000), (5_000, 4_000), (4_500,)):
        data = RecordBatch([BatchRecord(timestamp=one) for one in timestamps]).encode()
        await a.quiet("Produce", 9, acks=-1, timeout=5_000, topic_data=[to(topic, data)])
    return a, topic


@scenario
async def ends_in_every_version(stage: Stage) -> None:
    """The earliest and the latest offset."""
    a, topic = await filled(stage)
    for version in EVERY_VERSION:
        await ask(a, topic, EARLIEST, LATEST, version=version)


@scenario
async def empty_partition(stage: Stage) -> None:
    """A partition without records."""
    topic = await stage.create_topic()
    a = await stage.client()
    await ask(a, topic, EARLIEST, LATEST, MAX_TIMESTAMP, 0, 1_000, version=9)
    await ask(a, topic, EARLIEST, LATEST, 0, version=1)


@scenario
async def by_time(stage: Stage) -> None:
    """The first record whose timestamp is the given one or later, in the order of offsets."""
    a, topic = await filled(stage)
    await ask(a, topic, 0, 999, 1_000, 1_001, 2_000, 3_000, 3_001, 4_000, 4_600, 5_000)
    await ask(a, topic, 5_001, 2**62)


@scenario
async def by_time_in_every_version(stage: Stage) -> None:
    """A time that there is and one that there is not."""
    a, topic = await filled(stage)
    for version in EVERY_VERSION:
        await ask(a, topic, 2_500, 9_999, version=version)


@scenario
async def largest_timestamp(stage: Stage) -> None:
    """From version 7 on -3 asks for the record with the largest timestamp."""
    a, topic = await filled(stage)
    for version in EVERY_VERSION:
        await ask(a, topic, MAX_TIMESTAMP, version=version)


@scenario
async def tiered_storage(stage: Stage) -> None:
    """-4, -5 and -6 are about tiered storage, from versions 8, 9 and 11 on."""
    a, topic = await filled(stage)
    for version in (7, 8, 9, 10, 11):
        await ask(a, topic, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, version=version)


@scenario
async def unknown_special_times(stage: Stage) -> None:
    """Other negative timestamps."""
    a, topic = await filled(stage)
    for version in (1, 9, 11):
        await ask(a, topic, -7, -100, version=version)


@scenario
async def read_committed(stage: Stage) -> None:
    """Isolation level 1 (version 2): without transactions the same."""
    a, topic = await filled(stage)
    for version in (2, 9):
        await ask(a, topic, LATEST, EARLIEST, 2_500, version=version, isolation_level=1)


@scenario
async def unknown_names(stage: Stage) -> None:
    """Topics and partitions that do not exist, in every version."""
    a, topic = await filled(stage)
    for version in EVERY_VERSION:
        await ask(a, stage.topic_named("none"), LATEST, version=version)
    await ask(a, topic, LATEST, partition=4)
    await ask(a, topic, LATEST, partition=-1)


@scenario
async def leader_epochs(stage: Stage) -> None:
    """From version 4 on a current leader epoch above the partition's is unknown."""
    a, topic = await filled(stage)
    for epoch in (-1, 0, 1, 9):
        await ask(a, topic, LATEST, version=4, current_leader_epoch=epoch)
        await ask(a, topic, 2_500, version=9, current_leader_epoch=epoch)


@scenario
async def same_partition_twice(stage: Stage) -> None:
    """A partition named twice is refused."""
    a, topic = await filled(stage)
    parts = [
        {"partition_index": 0, "timestamp": one, "current_leader_epoch": -1}
        for one in (LATEST, EARLIEST)
    ]
    for version in (1, 9):
        await a.ask(
            "ListOffsets", version, replica_id=-1, topics=[{"name": topic, "partitions": parts}]
        )


@scenario
async def nothing_asked(stage: Stage) -> None:
    """No topics, and a topic without partitions."""
    a, topic = await filled(stage)
    await a.ask("ListOffsets", 9, replica_id=-1, topics=[])
    await a.ask("ListOffsets", 9, replica_id=-1, topics=[{"name": topic, "partitions": []}])


@scenario
async def after_delete_records(stage: Stage) -> None:
    """The earliest offset follows DeleteRecords, and so does the search by time."""
    a, topic = await filled(stage)
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}]
    await a.quiet("DeleteRecords", 2, topics=gone, timeout=5_000)
    await ask(a, topic, EARLIEST, LATEST, 0, 1_000, 2_500)


@scenario
async def all_deleted(stage: Stage) -> None:
    """When every record is deleted, nothing is found by time."""
    a, topic = await filled(stage)
    gone = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    await a.quiet("DeleteRecords", 2, topics=gone, timeout=5_000)
    await ask(a, topic, EARLIEST, LATEST, 0)


@scenario
async def append_time(stage: Stage) -> None:
    """With LogAppendTime the broker's times count."""
    topic = await stage.create_topic(message_timestamp_type="LogAppendTime")
    a = await stage.client()
    await produce(a, topic)
    await ask(a, topic, 1, MAX_TIMESTAMP, 4_102_444_800_000)


@scenario
async def several_partitions(stage: Stage) -> None:
    """Each partition has its own response, in no certain order."""
    topic = await stage.create_topic(partitions=3)
    a = await stage.client()
    await a.quiet(
        "Produce", 9, acks=-1, timeout=5_000, topic_data=[to(topic, RecordBatch().encode(), 1)]
    )
    parts = [
        {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
        for partition, timestamp in ((2, LATEST), (1, LATEST), (0, EARLIEST), (9, LATEST))
    ]
    for version in (1, 9):
        response = await a.quiet(
            "ListOffsets", version, replica_id=-1, topics=[{"name": topic, "partitions": parts}]
        )
        told = sorted(response["topics"][0]["partitions"], key=lambda one: one["partition_index"])
        stage.note(f"ListOffsets v{version}", told)


def epoch_asked(
    topic: str, epoch: int, current: int = -1, partition: int = 0
) -> list[dict[str, Any]]:
    """One partition of an OffsetForLeaderEpoch."""
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    return [{"topic": topic, "partitions": [asked]}]


@scenario
async def end_of_an_epoch(stage: Stage) -> None:
    """End of a leader epoch's records: known, later, earlier and no epoch, in every version."""
    a, topic = await filled(stage)
    for version in (2, 3, 4):
        for epoch in (0, 1, -1):
            await a.ask(
                "OffsetForLeaderEpoch", version, replica_id=-1, topics=epoch_asked(topic, epoch)
            )


@scenario
async def end_of_an_epoch_of_an_empty_log(stage: Stage) -> None:
    """A log without records has no epochs, or one: as Kafka has it."""
    topic = await stage.create_topic()
    a = await stage.client()
    for epoch in (0, 1):
        await a.ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=epoch_asked(topic, epoch))


@scenario
async def end_of_an_epoch_refused(stage: Stage) -> None:
    """Topics and partitions that do not exist, and current epochs that are not the partition's."""
    a, topic = await filled(stage)
    for asked in (
        epoch_asked(stage.topic_named("none"), 0),
        epoch_asked(topic, 0, partition=7),
        epoch_asked(topic, 0, current=0),
        epoch_asked(topic, 0, current=3),
    ):
        await a.ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=asked)
