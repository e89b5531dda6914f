"""`delivery=exactly_once`: the rows of a whole write in one transaction, which the driver sends.

Tasks encode and compress their rows and hand over the batches (`row_spool`), but send nothing. So a
task that fails, runs twice or is killed leaves nothing behind, and one EndTxn decides on the whole
write. One process has to send: tasks cannot share partitions, as sequences are counted by
partition, and what a task had sent before it failed could not be taken back alone.

Number and plan of a micro-batch are committed in its transaction (`micro_batches`). Spark repeats a
micro-batch if the driver ended before its checkpoint had the end; one that is committed is not sent
again. That is found out before InitProducerId: a driver that was believed dead and goes on learns
that its successor has committed a later micro-batch, and does not fence it. It is found out again
after InitProducerId, which has ended the transaction of an earlier driver, either way, and fenced
that driver, should it still run.

The offsets of a member that has `transactionalSink` are committed in the transaction as well, in
the name of the member (`sink_offsets`). They stand for the plan then. If the group has given the
partitions to others, the transaction is aborted, and the query ends. So it is if a topic was
deleted since the plan: offsets are committed for its name, and another topic may have it by now.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.errors import TransactionAbortedError
from kohort.client.group_metadata import GroupMetadata
from kohort.client.produce import Producer, Transaction
from kohort.errors import ErrorCode, KafkaError, KohortError, unless_error
from kohort.spark import background
from kohort.spark.encoded_batches import EncodedBatch, unpack
from kohort.spark.micro_batches import MicroBatch
from kohort.spark.positions import TopicIds, topic_id
from kohort.spark.sink_offsets import MemberPlan
from kohort.spark.write_options import WriteOptions
from kohort.types import GroupId, TopicPartition


class LostPartitionsError(KohortError):
    """The group has given the partitions of a micro-batch to others, or begun a generation."""


_LOST: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.group_id_not_found,
        ErrorCode.stale_member_epoch,
        ErrorCode.fenced_instance_id,
    }
)
"""What a group says of a member that is none any more, or in an older generation."""

logger: Final = logging.getLogger("kohort.spark")


def is_committed(options: WriteOptions, micro_batch: MicroBatch) -> bool:
    """Whether the micro-batch was committed before; nobody is fenced.

    Raises KohortError if another one was in its place.
    """
    return background.run(_is_committed(options, micro_batch, require_stable=False))


def validate_sink(options: WriteOptions, plan: MemberPlan) -> None:
    """Raise KohortError if a later driver has fenced the sink of this one; nobody is fenced."""
    background.run(_validate_sink(options, plan))


def write(
    options: WriteOptions,
    batches: Iterable[Any],
    micro_batch: MicroBatch | None,
    plan: MemberPlan | None = None,
) -> None:
    """Send batches that `encoded_batches` packed, all or none, and commit what a member has read.

    With the `plan` of a member the group's offsets decide; without, a `micro_batch` that was
    committed before is not sent again. Raises LostPartitionsError, KohortError; after
    CommitUnknownError the rows may have been committed.
    """
    producer = background.run(_write(options, unpack(batches), micro_batch, plan))
    if plan is not None:
        plan.mark_committed(producer)


async def _write(
    options: WriteOptions,
    batches: Iterable[EncodedBatch],
    micro_batch: MicroBatch | None,
    plan: MemberPlan | None,
) -> tuple[int, int]:
    """Returns the producer's id and epoch behind the transaction.

    Another process may use the transactional id next, so each transaction has a producer.
    """
    cluster = await background.cluster(options.kafka)
    async with options.producer(cluster) as producer:
        async with producer.transaction() as transaction:
            if (
                micro_batch is None
                or plan is not None
                or not await _is_committed(options, micro_batch, require_stable=True)
            ):
                topics = await _send(producer, batches)
                if micro_batch is not None:
                    partition = TopicPartition(min(topics), 0)
                    group = GroupMetadata(group_id=options.batches_group)
                    await transaction.commit_offsets({partition: micro_batch.to_commit()}, group)
                if plan is not None:
                    await _commit_offsets(cluster, transaction, plan)
        return transaction.producer


async def _validate_sink(options: WriteOptions, plan: MemberPlan) -> None:
    from kohort.client.admin import Admin

    admin = Admin(await background.cluster(options.kafka))
    transactional_id = plan.transactional_id
    found = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(found, KafkaError) and found.code is ErrorCode.transactional_id_not_found:
        return  # it has expired, after seven idle days by default; fencing would have renewed it
    described = unless_error(found)
    if (described.producer_id, described.producer_epoch) != plan.producer:
        raise KohortError(
            f"another driver has taken over the sink {transactional_id}, or an administrator fenced"
            " it. None of the rows of this micro-batch is written. If another driver runs with this"
            " kafka.transactional.id, end this one; else start the query again"
        )


async def _commit_offsets(cluster: Cluster, transaction: Transaction, plan: MemberPlan) -> None:
    """Raises LostPartitionsError, KohortError."""
    assert plan.group is not None, "a plan with offsets has a group"
    try:
        await transaction.commit_offsets(plan.offsets, plan.group)
    except TransactionAbortedError as error:
        cause = error.__cause__
        if not (isinstance(cause, KafkaError) and cause.code in _LOST):
            raise
        raise LostPartitionsError(
            f"group {plan.group.group_id} has taken the partitions of this micro-batch away, "
            f"which took longer than two thirds of kafka.max.poll.interval.ms: {cause}. None of "
            "its rows is visible, and their next owner reads them again; start the query again"
        ) from error
    # From here on a deletion of the topic takes its offsets out of the transaction.
    if gone := await _gone(cluster, plan.topic_ids):
        raise KohortError(
            f"topic {', '.join(sorted(gone))} was deleted during this micro-batch, whose offsets "
            "would be those of another topic with its name. None of its rows is visible; start the "
            "query again"
        )


async def _gone(cluster: Cluster, topic_ids: TopicIds) -> set[str]:
    """The topics that do not exist with these ids. Raises KohortError."""
    topics = (await cluster.metadata(tuple(topic_ids))).topics if topic_ids else {}
    return {
        name
        for name, planned in topic_ids.items()
        if topic_id(topics[name].id) not in (planned, None)
    }


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


async def _is_committed(
    options: WriteOptions, micro_batch: MicroBatch, *, require_stable: bool
) -> bool:
    """As `is_committed`; `require_stable` waits for offsets of a transaction that has ended.

    A group may get them after the coordinator's response.
    """
    from kohort.client.admin import Admin  # takes a while, and a batch does without

    group = GroupId(options.batches_group)
    admin = Admin(await background.cluster(options.kafka))
    found = await admin.committed([group], require_stable=require_stable)
    offsets = unless_error(found[group])
    if not micro_batch.is_committed(offsets.values()):
        return False
    logger.info("micro-batch %d is already committed", micro_batch.number)
    return True
