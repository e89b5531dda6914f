"""TxnOffsetCommit (28) v0-6: offsets of a group, committed in the transaction of a producer.

v2 adds the leader epoch (KIP-320). v3 is flexible, and has the member of the group (KIP-447). v4
lets TRANSACTION_ABORTABLE be an error; v5 lets the commit add the group to the transaction
(KIP-890). v6 names topics by id, and lets the generation be a member epoch (KIP-1319). Its errors
are GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH, where older versions have ILLEGAL_GENERATION.

If no transaction of the producer is open in the group's partition of `__consumer_offsets`, the
transaction coordinator is asked whether that partition belongs to its transaction. It is asked
before the group: an error of the group leaves the partition in the transaction, as in Kafka.

No version has PRODUCER_FENCED: an older epoch gets INVALID_PRODUCER_EPOCH. v0-1 get
COORDINATOR_NOT_AVAILABLE while the group is loading, because producers before 2.0 end otherwise.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.requests import OffsetToCommit, TxnOffsetCommit
from kohort.coordinator.responses import NONE, OffsetCommitResponse
from kohort.errors import ErrorCode, KafkaError
from kohort.log.producer_states import VerificationStateEntry
from kohort.protocol import response_fast_path
from kohort.server.handlers.chunked import submit_and_wait
from kohort.server.handlers.commits import (
    PARTITIONS_PER_TURN,
    drop_oversized,
    drop_unknown_partitions,
    merge_errors,
    refuse_all,
)
from kohort.server.net import Exchange
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.transactions.requests import TransactionalProducer
from kohort.types import TopicPartition
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import TxnOffsetCommitRequest

COORDINATOR_LOADING_SINCE: Final = 2
LEADER_EPOCH_SINCE: Final = 2
MEMBER_ID_SINCE: Final = 3
TRANSACTION_ABORTABLE_SINCE: Final = 4
TRANSACTION_V2_SINCE: Final = 5
TOPIC_ID_SINCE: Final = 6
_TRIES: Final = 5
"""Verifications of a commit; markers of the last transaction end those from before them."""


async def handle(services: Services, exchange: Exchange, request: "TxnOffsetCommitRequest") -> None:
    """Refuse partitions that do not exist; have the rest verified, and then the shard decide."""
    responses = PartitionResponses()
    has_epoch = exchange.version >= LEADER_EPOCH_SINCE
    by_id = exchange.version >= TOPIC_ID_SINCE
    access = services.access(exchange)
    if not access.transactional_id(request.transactional_id):
        error = ErrorCode.transactional_id_authorization_failed
        steps = refuse_all(request, responses, by_id=by_id, error=error)
    elif not access.group(request.group_id):
        error = ErrorCode.group_authorization_failed
        steps = refuse_all(request, responses, by_id=by_id, error=error)
    else:
        steps = drop_unknown_partitions(
            services, access, request, responses, by_id=by_id, has_epoch=has_epoch
        )
    offsets = await in_slices(steps)
    response = OffsetCommitResponse(())
    if offsets:
        response = await _commit(
            services, exchange.version, request, drop_oversized(services, offsets)
        )
    encode = partial(_encoded, exchange.version, responses, response, offsets)
    is_large = responses.elements > PARTITIONS_PER_TURN
    exchange.respond_encoded(*(await services.heavy_work.run(encode) if is_large else encode()))


async def _commit(
    services: Services,
    version: int,
    request: "TxnOffsetCommitRequest",
    offsets: tuple[OffsetToCommit, ...],
) -> OffsetCommitResponse:
    try:
        guard = await _verify(services, version, request)
    except KafkaError as error:
        results = tuple((TopicPartition(o.topic, o.partition), error.code) for o in offsets)
        return OffsetCommitResponse(results)
    response: OffsetCommitResponse = await submit_and_wait(
        services, partial(_request, version, request, offsets, guard)
    )
    return response


async def _verify(
    services: Services, version: int, request: "TxnOffsetCommitRequest"
) -> VerificationStateEntry | None:
    """The guard of the transaction, None if there is nothing to verify. Raises KafkaError."""
    if not request.group_id:
        return None  # the shard refuses it
    for _ in range(_TRIES):
        guard = await _verify_once(services, version, request)
        if guard is None or not guard.has_ended:
            return guard
    raise KafkaError(ErrorCode.concurrent_transactions)


async def _verify_once(
    services: Services, version: int, request: "TxnOffsetCommitRequest"
) -> VerificationStateEntry | None:
    group, groups = request.group_id, services.groups
    try:
        guard = groups.begin_verification(group, request.producer_id, request.producer_epoch)
    except (KafkaError, OSError):
        raise KafkaError(ErrorCode.not_coordinator, "the group log is not served") from None
    if guard is not None:
        error = await services.verifier.verify(
            TransactionalProducer(
                request.transactional_id, request.producer_id, request.producer_epoch
            ),
            groups.partition_of(group),
            add=version >= TRANSACTION_V2_SINCE,
        )
        if error is not NONE:
            raise KafkaError(error)
    return guard


def _request(
    version: int,
    request: "TxnOffsetCommitRequest",
    offsets: tuple[OffsetToCommit, ...],
    guard: VerificationStateEntry | None,
    respond: Callable[[Any], None],
) -> TxnOffsetCommit:
    has_member = version >= MEMBER_ID_SINCE
    return TxnOffsetCommit(
        on_response=respond,
        version=version,
        group=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation=_generation(version, request),
        member_id=request.member_id if has_member else "",
        instance_id=request.group_instance_id if has_member else None,
        offsets=offsets,
        verified=guard,
    )


def _generation(version: int, request: "TxnOffsetCommitRequest") -> int:
    if version >= TOPIC_ID_SINCE:
        return request.generation_id_or_member_epoch
    return request.generation_id if version >= MEMBER_ID_SINCE else -1


def _encoded(
    version: int,
    responses: PartitionResponses,
    response: OffsetCommitResponse,
    offsets: Sequence[OffsetToCommit],
) -> tuple[bytes, set[int]]:
    results = merge_errors(response, offsets).results
    topics = responses.merged_with((key, _in_version(error, version)) for key, error in results)
    errors: set[int] = {error for _, _, partitions in topics for _, error in partitions}
    return response_fast_path.txn_offset_commit(version, topics), errors


def _in_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < TRANSACTION_ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    if error is ErrorCode.coordinator_load_in_progress and version < COORDINATOR_LOADING_SINCE:
        return ErrorCode.coordinator_not_available
    return error
