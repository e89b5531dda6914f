"""ListTransactions (66) v0-2: the transactional ids, their states and producers (KIP-664).

States that do not exist are named in the response, unless it is an error. v1 filters by duration
(KIP-994), v2 by a pattern (KIP-1152).
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.server.handlers.chunked import CHUNK, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.records import TransactionMetadata, TransactionState
from kohort.util.regular_expression import RegularExpression, RegularExpressionError
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import ListTransactionsRequest

STATES: Final = frozenset(
    {*(state.label for state in TransactionState), "Dead", "PrepareEpochFence"}
)
"""All names; the last two are never those of an id that is listed."""


class Filter(NamedTuple):
    """Which ids are wanted; no states and no producers are all of them."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    began_before: int
    """Latest start in ms since the epoch."""
    pattern: Callable[[str], bool] | None
    """Whether an id matches."""

    def wants(self, transactional_id: str, metadata: TransactionMetadata) -> bool:
        return (
            (not self.states or metadata.state.label in self.states)
            and (not self.producer_ids or metadata.producer_id in self.producer_ids)
            and metadata.start < self.began_before
            and (self.pattern is None or self.pattern(transactional_id))
        )


async def handle(
    services: Services, exchange: Exchange, request: "ListTransactionsRequest"
) -> None:
    fields: dict[str, Any] = {}
    unknown_states: Sequence[str] = ()
    rows: Sequence[dict[str, Any]] = ()
    try:
        if not services.transactions.is_loaded:
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        rows = await _list(services, exchange, _filter(services, request))
        unknown_states = await in_slices(_unknown_states(request))
    except KafkaError as error:
        fields["error_code"] = error.code
    fields |= {"unknown_state_filters": unknown_states, "transaction_states": rows}
    await respond_large(services, exchange, fields, len(rows) + len(unknown_states))


def _unknown_states(request: "ListTransactionsRequest") -> Generator[None, None, list[str]]:
    unknown: dict[str, None] = {}
    for state in request.state_filters:
        if state not in STATES:
            unknown[state] = None
        yield
    return list(unknown)


def _filter(services: Services, request: "ListTransactionsRequest") -> Filter:
    """Raises KafkaError INVALID_REGULAR_EXPRESSION."""
    duration_ms = getattr(request, "duration_filter", -1)
    pattern = getattr(request, "transactional_id_pattern", None)
    now = services.clock.timestamp()
    return Filter(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        now - duration_ms if duration_ms >= 0 else now + 2**62,
        _matcher(pattern) if pattern else None,
    )


def _matcher(pattern: str) -> Callable[[str], bool]:
    try:
        return RegularExpression(pattern).matches
    except RegularExpressionError as error:
        raise KafkaError(ErrorCode.invalid_regular_expression, str(error)) from None


async def _list(
    services: Services, exchange: Exchange, transaction_filter: Filter
) -> list[dict[str, Any]]:
    may_describe = services.access(exchange).quietly().transactional_id
    rows = []
    slices = TimeSlices()
    for shard in services.transactions.shards():
        following = iter(tuple(shard.items()))
        while batch := tuple(islice(following, CHUNK)):
            if services.has_authorizer:
                batch = tuple(item for item in batch if may_describe(item[0]))
            if transaction_filter.pattern is None:
                rows += _rows(transaction_filter, batch)
            else:  # one that takes long must not hold up others
                rows += await services.heavy_work.run(partial(_rows, transaction_filter, batch))
            await slices.give_way()
    return rows


def _rows(
    transaction_filter: Filter, items: Sequence[tuple[str, TransactionMetadata]]
) -> list[dict[str, Any]]:
    return [_row(*item) for item in items if transaction_filter.wants(*item)]


def _row(transactional_id: str, metadata: TransactionMetadata) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": metadata.producer_id,
        "transaction_state": metadata.state.label,
    }
