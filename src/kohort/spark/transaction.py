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

The offsets of a member that has `transactionalSink` are committed in the transaction as well, in
the name of the member (`sink_offsets`). If the group has given its partitions to others, the
transaction is aborted. The query then ends: sources that are no members repeat the micro-batch at
the next start, which drops it only for the member.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.errors import TransactionAbortedError
from kohort.client.group_metadata import GroupMetadata
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce import Producer, Transaction
from kohort.errors import ErrorCode, KafkaError, KohortError, unless_error
from kohort.spark import background
from kohort.spark.encoded_batches import EncodedBatch, unpack
from kohort.spark.sink_offsets import HandedOver
from kohort.spark.write_options import WriteOptions
from kohort.types import GroupId, TopicPartition


class LostPartitionsError(KohortError):
    """The group has given the partitions of a micro-batch to others, or begun a generation."""


_LOST: Final = frozenset(
    {ErrorCode.illegal_generation, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id}
)
"""What a group says of a member that is none any more, or in an older generation."""

logger: Final = logging.getLogger("kohort.spark")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch, with the numbers that Spark gives it again when it is repeated."""

    query_id: str
    """Kept in the checkpoint."""
    number: int


def write(
    options: WriteOptions,
    batches: Iterable[Any],
    micro_batch: MicroBatch | None,
    handed: HandedOver | None = None,
) -> None:
    """Send batches that `encoded_batches` packed, all or none, and commit what a source `handed`.

    A `micro_batch` that was committed before is not sent again. Raises LostPartitionsError,
    KohortError; after CommitUnknownError the rows may have been committed.
    """
    background.run(_write(options, unpack(batches), micro_batch, handed))
    if handed is not None:
        handed.take()


async def _write(
    options: WriteOptions,
    batches: Iterable[EncodedBatch],
    micro_batch: MicroBatch | None,
    handed: HandedOver | None,
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
        if handed is not None:
            await _commit_offsets(transaction, handed)


async def _commit_offsets(transaction: Transaction, handed: HandedOver) -> None:
    """Raises LostPartitionsError, KohortError."""
    try:
        await transaction.commit_offsets(handed.offsets, handed.group)
    except TransactionAbortedError as error:
        cause = error.__cause__
        if not (isinstance(cause, KafkaError) and cause.code in _LOST):
            raise
        raise LostPartitionsError(
            f"group {handed.group.group_id} has taken the partitions of this micro-batch away, "
            f"which took longer than two thirds of kafka.max.poll.interval.ms: {cause}. None of "
            "its rows is visible, and their next owner reads them again; start the query again"
        ) from error


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
    from kohort.client.admin import Admin  # takes a while, and a batch does without

    group = GroupId(options.batches_group)
    found = unless_error((await Admin(cluster).committed([group], require_stable=True))[group])
    return any(
        each.metadata == micro_batch.query_id and each.offset == micro_batch.number
        for each in found.values()
    )
