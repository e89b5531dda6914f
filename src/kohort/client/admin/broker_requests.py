"""Requests to all brokers: each responds for the groups or transactions that it coordinates."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from kohort.client.cluster import Cluster
from kohort.errors import KohortError, fresh

T = TypeVar("T")


async def from_all_brokers(
    cluster: Cluster, request: Callable[[int], Awaitable[Iterable[T] | KohortError]]
) -> tuple[list[T], dict[int, KohortError]]:
    """The elements of the brokers' responses, and by node id the errors of the other brokers.

    `request` sends the request to a node. Raises KohortError if no broker responds.
    """
    nodes = sorted((await cluster.metadata(())).brokers)
    outcomes = dict(zip(nodes, await asyncio.gather(*map(request, nodes)), strict=True))
    failures = {node: error for node, error in outcomes.items() if isinstance(error, KohortError)}
    if failures and len(failures) == len(nodes):
        raise fresh(next(iter(failures.values())))
    responses = [
        response for response in outcomes.values() if not isinstance(response, KohortError)
    ]
    return [element for response in responses for element in response], failures
