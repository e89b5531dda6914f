"""Requests and events of a shard, and its responses, independent of wire versions.

Handlers validate the wire's requests and build these from them. `on_response` receives the
response: a `Result` returns both in a `Reply`.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode
from kohort.transactions.records import NO_PRODUCER_ID, Partitions, TransactionMetadata
from kohort.types import OnResponse

NO_EPOCH: Final = -1


class TransactionalProducer(NamedTuple):
    """Identity of a producer that writes in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer requests its id and epoch, and fences earlier producers."""

    on_response: OnResponse
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """Current id and epoch of a running producer (KIP-360), -1 for a new one."""
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it."""

    on_response: OnResponse
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    client_version: int
    """Transaction version, by the version of the request: 2, or 0 for older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """Check whether partitions are in the open transaction, without adding them."""

    on_response: OnResponse
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    on_response: OnResponse
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    bumps_epoch: bool
    """v5 (KIP-890): the end bumps the producer epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransaction:
    on_response: OnResponse
    transactional_id: str


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Event: the markers of an ending transaction are written to all its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Id and epoch of the markers."""


@dataclass(frozen=True, slots=True)
class ExpireTransactionalIds:
    """Event: check some ids for expiry; removed ids are ignored."""

    transactional_ids: tuple[str, ...]


Request: TypeAlias = (
    InitProducerId | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransaction
)


class ProducerResponse(NamedTuple):
    """Response of InitProducerId and EndTransaction: the next id and epoch."""

    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class AddPartitionsResponse(NamedTuple):
    error: ErrorCode = ErrorCode.none


class VerifyPartitionsResponse(NamedTuple):
    error: ErrorCode = ErrorCode.none
    """The error of all partitions."""
    missing: Partitions = MappingProxyType({})
    """Partitions that are not in the transaction, if `error` is none."""


class DescribeTransactionResponse(NamedTuple):
    error: ErrorCode = ErrorCode.none
    metadata: TransactionMetadata | None = None


Response: TypeAlias = (
    ProducerResponse
    | AddPartitionsResponse
    | VerifyPartitionsResponse
    | DescribeTransactionResponse
)


_RESPONSES: Final[dict[type, type]] = {
    InitProducerId: ProducerResponse,
    AddPartitions: AddPartitionsResponse,
    VerifyPartitions: VerifyPartitionsResponse,
    EndTransaction: ProducerResponse,
    DescribeTransaction: DescribeTransactionResponse,
}


def refuse(request: Request, error: ErrorCode) -> Response:
    """The response with `error`, in the shape that this kind of request has."""
    response: Response = _RESPONSES[type(request)](error)
    return response
