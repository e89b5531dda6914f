"""A member of the group as `kohort.client` has it: one task for each partition, until SIGTERM.

    python -m kohort_demo.member BOOTSTRAP GROUP TOPIC CLIENT_ID PACE

SIGTERM, or the group, may take a partition away at any time: its task then finishes the batch that
it has in hand, which is committed before the next owner starts. Partitions that stay are not
interrupted.
"""

import asyncio

from kohort.client import ConsumerGroup, Generation
from kohort.types import TopicPartition
from kohort_demo.work import (
    COMMIT_INTERVAL_MS,
    FETCH_BYTES,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Job,
    Pace,
    count,
    say,
)

PACE_SECONDS = 0.05
"""How often a partition that is ahead looks at the pace."""


async def main(job: Job) -> None:
    async with ConsumerGroup(
        job.group,
        topics=[job.topic],
        bootstrap=job.bootstrap,
        client_id=job.client_id,
        assignors=["cooperative-sticky"],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        commit_interval_ms=COMMIT_INTERVAL_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
    ) as group:
        await group.run_until_signal(count_flights, job.pace)


async def count_flights(generation: Generation, partition: TopicPartition, pace: Pace) -> None:
    async for batch in generation.records(partition):
        # slow on purpose, but not once somebody waits for the partition
        while pace.due(batch.high_watermark) < batch.next_offset:
            if await ends_within(generation, PACE_SECONDS):
                break
        say(
            partition.partition,
            batch.first_offset,
            batch.next_offset,
            count(record.value for record in batch),
        )
        await generation.commit({partition: batch.next_offset})


async def ends_within(generation: Generation, seconds: float) -> bool:
    try:
        await asyncio.wait_for(generation.ending(), seconds)
    except TimeoutError:
        return False
    return True


if __name__ == "__main__":
    asyncio.run(main(Job.told()))
