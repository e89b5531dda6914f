"""Groups that other nodes coordinate, by ListGroups."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.internode.transactions import NodeConnections

RESPONSE_TIMEOUT_S: Final = 2.0
"""Timeout of a response; a page of groups does not wait longer for a node that hangs."""
_LIST_GROUPS: Final = BY_NAME["list_groups"].key
_VERSION: Final = 5


class GroupsElsewhere(NamedTuple):
    """Groups of other nodes, and the nodes that did not respond."""

    groups: list[Any]
    """As in a ListGroups response."""
    silent: list[int]
    """Nodes that did not respond."""


class RoutedGroups:
    """Lists the groups of other nodes."""

    def __init__(self, connect: Callable[[int], Connect]) -> None:
        """`connect` returns the function that connects to a node."""
        self._connections = NodeConnections(connect)

    async def list(self, nodes: Iterable[int]) -> GroupsElsewhere:
        """List the groups of these nodes, concurrently."""
        node_ids = [*nodes]
        responses = await asyncio.gather(*map(self._ask, node_ids))
        groups = [group for response in responses if response is not None for group in response]
        unreachable = [
            node for node, response in zip(node_ids, responses, strict=True) if response is None
        ]
        return GroupsElsewhere(groups, unreachable)

    async def _ask(self, node: int) -> Any:
        """The ListGroups response of a node; None if it does not respond."""
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                response = await self._connections.to(node).ask(
                    _LIST_GROUPS, _VERSION, states_filter=[], types_filter=[]
                )
        except (NodeUnreachableError, TimeoutError):
            return None
        return None if response.error_code else response.groups

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._connections.close()
