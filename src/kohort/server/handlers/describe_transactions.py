"""DescribeTransactions (65) v0: the state of transactional ids (KIP-664).

Partitions are those that are still to be written to or marked. Partitions of deleted topics are
left out.
"""

from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.server.handlers.chunked import respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.requests import DescribeTransaction, DescribeTransactionResponse
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeTransactionsRequest

MAX_REPEATED_SIZE: Final = 10_000
"""Partitions in a response up to which an id that is named again is described again."""


async def handle(
    services: Services, exchange: Exchange, request: "DescribeTransactionsRequest"
) -> None:
    """Ask for every id.

    In a large response, an id that is named again gets INVALID_REQUEST: few bytes of names must not
    become hundreds of megabytes.
    """
    described: list[tuple[str, DescribeTransactionResponse]] = []
    partitions = 0
    seen: set[str] = set()
    slices = TimeSlices()
    for name in request.transactional_ids:
        if not services.access(exchange).transactional_id(name):
            response = DescribeTransactionResponse(ErrorCode.transactional_id_authorization_failed)
        elif not name or (name in seen and partitions > MAX_REPEATED_SIZE):
            response = DescribeTransactionResponse(ErrorCode.invalid_request)
        else:
            query = DescribeTransaction(on_response=None, transactional_id=name)
            response = await services.transactions.ask(query)
        seen.add(name)
        if response.metadata is not None:
            partitions += sum(1 + len(numbers) for numbers in response.metadata.partitions.values())
        described.append((name, response))
        await slices.give_way()
    access = services.access(exchange)
    visible = {
        topic
        for _, response in described
        if response.metadata is not None
        for topic in response.metadata.partitions
        if services.topics.get(topic) is not None and access.topic(topic)
    }

    def fields() -> dict[str, Any]:
        return {"transaction_states": [_row(*item, visible) for item in described]}

    await respond_large(services, exchange, fields, len(described) + partitions)


def _row(name: str, response: DescribeTransactionResponse, visible: set[str]) -> dict[str, Any]:
    row = {"transactional_id": name, "error_code": response.error}
    metadata = response.metadata
    if metadata is None:
        return row
    return row | {
        "transaction_state": metadata.state.label,
        "transaction_timeout_ms": metadata.timeout_ms,
        "transaction_start_time_ms": metadata.start,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": sorted(numbers)}
            for topic, numbers in metadata.partitions.items()
            if topic in visible
        ],
    }
