"""AddPartitionsToTxn (24) v0-5: partitions that a transaction is going to write to (KIP-98).

v0-3 come from producers, which since KIP-890 need it no more: their first Produce adds a partition.
v2 knows PRODUCER_FENCED (KIP-588), v3 is flexible. v4-5 come from brokers, with many transactions
in one request, some of them to be verified only: they need CLUSTER_ACTION, and nothing else.

If one partition does not exist, none is added, and the others get OPERATION_NOT_ATTEMPTED.
"""

from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import ErrorCode
from kohort.server.authorization import Access
from kohort.server.handlers import without_fenced
from kohort.server.handlers.chunked import respond_large
from kohort.server.metadata import INTERNAL
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.records import Partitions
from kohort.transactions.requests import TransactionalProducer
from kohort.transactions.transitions import BUMPS_EPOCH
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import AddPartitionsToTxnRequest

PRODUCER_FENCED_SINCE: Final = 2
BATCHED_SINCE: Final = 4


class Errors(NamedTuple):
    """The errors of the partitions of one transaction."""

    of_most: ErrorCode
    others: Mapping[tuple[str, int], ErrorCode] = MappingProxyType({})
    """(topic, partition) → error."""

    def of(self, topic: str, partition: int) -> ErrorCode:
        return self.others.get((topic, partition), self.of_most)


async def handle(
    services: Services, exchange: Exchange, request: "AddPartitionsToTxnRequest"
) -> None:
    if exchange.version >= BATCHED_SINCE:
        await _handle_many(services, exchange, request)
        return
    errors = await _errors(
        services,
        services.access(exchange),
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        request.v3_and_below_topics,
        of_broker=False,
    )
    if exchange.version < PRODUCER_FENCED_SINCE:
        errors = errors._replace(of_most=without_fenced(errors.of_most))
    topics = request.v3_and_below_topics
    await respond_large(
        services,
        exchange,
        lambda: {"results_by_topic_v3_and_below": _results(topics, errors)},
        _size(topics),
    )


async def _handle_many(
    services: Services, exchange: Exchange, request: "AddPartitionsToTxnRequest"
) -> None:
    access = services.access(exchange)
    if not access.cluster():
        error = {"error_code": ErrorCode.cluster_authorization_failed}
        await respond_large(services, exchange, error | {"results_by_transaction": ()}, 0)
        return
    results: list[tuple[str, Sequence[Any], Errors]] = []
    slices = TimeSlices()
    for transaction in request.transactions:
        errors = await _errors(
            services,
            access,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.topics,
            of_broker=True,
            verify_only=transaction.verify_only,
        )
        results.append((transaction.transactional_id, transaction.topics, errors))
        await slices.give_way()

    def fields() -> dict[str, Any]:
        return {
            "error_code": ErrorCode.none,
            "results_by_transaction": [
                {"transactional_id": name, "topic_results": _results(topics, errors)}
                for name, topics, errors in results
            ],
        }

    size = sum(1 + _size(topics) for _, topics, _ in results)
    await respond_large(services, exchange, fields, size)


async def _errors(
    services: Services,
    access: Access,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: Sequence[Any],
    *,
    of_broker: bool,
    verify_only: bool = False,
) -> Errors:
    """Add or verify the partitions of one transaction."""
    if not of_broker and not access.transactional_id(transactional_id):
        return Errors(ErrorCode.transactional_id_authorization_failed)
    partitions = await in_slices(_partitions(topics))
    refused = await in_slices(_refused(services, access, partitions, of_broker))
    if refused:
        return Errors(ErrorCode.operation_not_attempted, refused)
    producer = TransactionalProducer(transactional_id, producer_id, producer_epoch)
    if not of_broker:
        add = services.transactions.add_partitions_after_markers
        return Errors(await add(producer, partitions, 0))
    if not verify_only:
        add = services.transactions.add_partitions
        return Errors(await add(producer, partitions, BUMPS_EPOCH))
    error, missing = await services.transactions.verify_partitions(producer, partitions)
    absent = ErrorCode.transaction_abortable
    return Errors(
        error,
        {(topic, partition): absent for topic, numbers in missing.items() for partition in numbers},
    )


def _partitions(topics: Sequence[Any]) -> Generator[None, None, Partitions]:
    partitions: dict[str, frozenset[int]] = {}
    for topic in topics:
        partitions[topic.name] = partitions.get(topic.name, frozenset()).union(topic.partitions)
        yield
    return partitions


def _refused(
    services: Services, access: Access, partitions: Partitions, of_broker: bool
) -> Generator[None, None, dict[tuple[str, int], ErrorCode]]:
    """The partitions that do not exist, or that producers must not write to."""
    refused = {}
    for name, numbers in partitions.items():
        topic = services.topics.get(name)
        for partition in numbers:
            if not of_broker and (name in INTERNAL or not access.topic(name)):
                refused[name, partition] = ErrorCode.topic_authorization_failed
            elif topic is None or not 0 <= partition < len(topic.partitions):
                refused[name, partition] = ErrorCode.unknown_topic_or_partition
            yield
    return refused


def _size(topics: Sequence[Any]) -> int:
    return sum(1 + len(topic.partitions) for topic in topics)


def _results(topics: Sequence[Any], errors: Errors) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": partition,
                    "partition_error_code": errors.of(topic.name, partition),
                }
                for partition in topic.partitions
            ],
        }
        for topic in topics
    ]
