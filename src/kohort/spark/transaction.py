"""`delivery=exactly_once`: the rows of a whole write in one transaction, which the driver sends.

Tasks encode and compress their rows and hand over the batches (`row_spool`), but send nothing. So a
task that fails, runs twice or is killed leaves nothing behind, and one EndTxn decides on the whole
write. One process has to send: tasks cannot share partitions, as sequences are counted by
partition, and the records of a failed task could not be aborted alone.

Number and plan of a micro-batch are committed in its transaction (`micro_batches`). Spark repeats a
micro-batch if the driver ended before its checkpoint had the end; one that is committed is not sent
again. This is checked before InitProducerId, so that a driver which was believed dead does not
fence its successor: the successor has committed a later micro-batch. It is checked again after
InitProducerId, which has ended the transaction of an earlier driver and fenced that driver.

With `transactionalSink` the transaction also commits the offsets of the member (`sink_offsets`),
and they replace the plan. The transaction is aborted and the query ends if the group has assigned
the partitions to others, or if a topic was deleted since the plan: offsets are committed by name,
and a new topic may have the name by now.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.errors import TransactionAbortedError
from kohort.client.group_errors import NOT_CURRENT_MEMBER
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
    """The group has reassigned the partitions of a micro-batch, or begun a new generation."""


_LOST: Final = NOT_CURRENT_MEMBER | {ErrorCode.fenced_instance_id}

logger: Final = logging.getLogger("kohort.spark")


def is_committed(options: WriteOptions, micro_batch: MicroBatch) -> bool:
    """Whether the micro-batch was committed before. Fences no producer.

    Raises KohortError if another micro-batch was committed with its number.
    """
    return background.run(_is_committed(options, micro_batch, require_stable=False))


def validate_sink(options: WriteOptions, plan: MemberPlan) -> None:
    """Raise KohortError if a later driver has fenced this sink. Fences no producer."""
    background.run(_validate_sink(options, plan))


def write(
    options: WriteOptions,
    batches: Iterable[Any],
    micro_batch: MicroBatch | None,
    plan: MemberPlan | None = None,
) -> None:
    """Send batches that `encoded_batches` packed, all or none, and commit a member's offsets.

    Without the `plan` of a member, a `micro_batch` that was committed before is not sent again.
    With it, the group's offsets decide. Raises LostPartitionsError, KohortError; after
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
    outcome = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(outcome, KafkaError) and outcome.code is ErrorCode.transactional_id_not_found:
        return  # expired after seven idle days by default; fencing would have renewed it
    described = unless_error(outcome)
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
    if deleted := await _deleted(cluster, plan.topic_ids):
        raise KohortError(
            f"topic {', '.join(sorted(deleted))} was deleted during this micro-batch. Its offsets "
            "could be applied to a new topic of that name, so none of the rows is visible; start "
            "the query again"
        )


async def _deleted(cluster: Cluster, topic_ids: TopicIds) -> set[str]:
    """The topics that do not exist with these ids. Raises KohortError."""
    topics = (await cluster.metadata(tuple(topic_ids))).topics if topic_ids else {}
    return {
        name
        for name, planned in topic_ids.items()
        if topic_id(topics[name].id) not in (planned, None)
    }


async def _send(producer: Producer, batches: Iterable[EncodedBatch]) -> set[str]:
    """Send the batches; returns their topics."""
    topics = set()
    for batch in batches:
        await producer.send_encoded(
            batch.topic_partition,
            batch.records,
            batch.rows,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            uncompressed_size=batch.size,
        )
        topics.add(batch.topic)
    return topics


async def _is_committed(
    options: WriteOptions, micro_batch: MicroBatch, *, require_stable: bool
) -> bool:
    """As `is_committed`; `require_stable` waits for the offsets of a transaction that has ended.

    They may reach the group after the response of EndTxn.
    """
    from kohort.client.admin import Admin  # slow to import, and a batch does not need it

    group = GroupId(options.batches_group)
    admin = Admin(await background.cluster(options.kafka))
    committed = await admin.committed([group], require_stable=require_stable)
    offsets = unless_error(committed[group])
    if not micro_batch.is_committed(offsets.values()):
        return False
    logger.info("micro-batch %d is already committed", micro_batch.number)
    return True
