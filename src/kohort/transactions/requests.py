"""Requests and events of a shard, and its responses, independent of wire versions.

Handlers build the requests from the wire's, which are validated there. `on_response` receives the
response: a `Result` has both in a `Reply`.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode
from kohort.transactions.records import NO_PRODUCER_ID, Partitions, TransactionMetadata
from kohort.types import OnResponse

NO_EPOCH: Final = -1


class TransactionalProducer(NamedTuple):
    """Who writes in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer asks for its id and epoch, and fences those before it."""

    on_response: OnResponse
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """Id and epoch that a running producer has (KIP-360), -1 for a new one."""
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Partitions that the transaction writes to; the first ones begin it."""

    on_response: OnResponse
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    client_version: int
    """Transaction version by the version of the request: 2 or, for older ones, 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """Whether partitions belong to the open transaction; it adds none."""

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
    """v5 (KIP-890): the end gives the producer its next epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransaction:
    on_response: OnResponse
    transactional_id: str


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Event: every partition of a transaction that ends has its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Id and epoch of the markers."""


@dataclass(frozen=True, slots=True)
class ExpireTransactionalIds:
    """Event: the periodic check of some ids is due; those that are gone are ignored."""

    transactional_ids: tuple[str, ...]


Request: TypeAlias = (
    InitProducerId | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransaction
)


class ProducerResponse(NamedTuple):
    """Response of InitProducerId and EndTransaction: the id and epoch to go on with."""

    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class AddPartitionsResponse(NamedTuple):
    error: ErrorCode = ErrorCode.none


class VerifyPartitionsResponse(NamedTuple):
    error: ErrorCode = ErrorCode.none
    """The error of all partitions."""
    missing: Partitions = MappingProxyType({})
    """Those that are not in the transaction, if there is no error of all."""


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
