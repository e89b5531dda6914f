"""`delivery=exactly_once`: the rows of a whole write in one transaction, which the driver sends.

Tasks encode and compress their rows and hand over the batches (`row_spool`), but send nothing. So a
task that fails, runs twice or is killed leaves nothing behind, and one EndTxn decides on the whole
write. One process has to send: tasks cannot share partitions, as sequences are counted by
partition, and what a task had sent before it failed could not be taken back alone.

The number of a micro-batch is committed in its transaction, as an offset of a group of its own.
Spark repeats a micro-batch if the driver ended before its checkpoint had the end. The driver then
reads the number, after InitProducerId: that has ended the transaction of an earlier driver, either
way, and fenced that driver, should it still run. A micro-batch whose number is there is not sent
again. The metadata of the offset is the query's id, because the numbers of a new checkpoint begin
at 0 again.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.group_metadata import GroupMetadata
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce import Producer
from kohort.errors import unless_error
from kohort.spark import background
from kohort.spark.encoded_batches import EncodedBatch, unpack
from kohort.spark.write_options import WriteOptions
from kohort.types import GroupId, TopicPartition

logger: Final = logging.getLogger("kohort.spark")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch, with the numbers that Spark gives it again when it is repeated."""

    query_id: str
    """Kept in the checkpoint."""
    number: int


def write(options: WriteOptions, batches: Iterable[Any], micro_batch: MicroBatch | None) -> None:
    """Send batches that `encoded_batches` packed, all or none.

    A `micro_batch` that was committed before is not sent again. Raises KohortError; after
    CommitUnknownError the rows may have been committed.
    """
    background.run(_write(options, unpack(batches), micro_batch))


async def _write(
    options: WriteOptions, batches: Iterable[EncodedBatch], micro_batch: MicroBatch | None
) -> None:
    """Another process may use the transactional id next, so each transaction has a producer."""
    cluster = await background.cluster(options.kafka)
    async with options.producer(cluster) as producer, producer.transaction() as transaction:
        if micro_batch is not None and await _is_committed(cluster, options, micro_batch):
            logger.info("micro-batch %d is committed already", micro_batch.number)
            return
        topics = await _send(producer, batches)
        if micro_batch is not None:
            place = TopicPartition(min(topics), 0)
            number = OffsetAndMetadata(offset=micro_batch.number, metadata=micro_batch.query_id)
            group = GroupMetadata(group_id=options.batches_group)
            await transaction.commit_offsets({place: number}, group)


async def _send(producer: Producer, batches: Iterable[EncodedBatch]) -> set[str]:
    """Hand them to the producer; returns their topics."""
    topics = set()
    for each in batches:
        await producer.send_encoded(
            each.topic_partition,
            each.records,
            each.rows,
            base_timestamp=each.base_timestamp,
            max_timestamp=each.max_timestamp,
            uncompressed_size=each.size,
        )
        topics.add(each.topic)
    return topics


async def _is_committed(cluster: Cluster, options: WriteOptions, micro_batch: MicroBatch) -> bool:
    group = GroupId(options.batches_group)
    found = unless_error((await Admin(cluster).committed([group], require_stable=True))[group])
    return any(
        each.metadata == micro_batch.query_id and each.offset == micro_batch.number
        for each in found.values()
    )
