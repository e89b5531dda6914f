"""The groups that other nodes coordinate."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.internode.transactions import NodeConnections

WITHIN_S: Final = 2.0
"""Time that a node has to tell its groups: who looks at groups waits for no node that hangs."""
_LIST_GROUPS: Final = BY_NAME["list_groups"].key
_VERSION: Final = 5


class GroupsElsewhere(NamedTuple):
    """What other nodes told of their groups."""

    groups: list[Any]
    """As in a ListGroups response."""
    silent: list[int]
    """Nodes that did not tell."""


class RoutedGroups:
    """Asks other nodes for their groups."""

    def __init__(self, connect: Callable[[int], Connect]) -> None:
        """`connect` tells how each node is reached."""
        self._connections = NodeConnections(connect)

    async def list(self, nodes: Iterable[int]) -> GroupsElsewhere:
        """The groups of these nodes, each of which is asked at the same time."""
        asked = [*nodes]
        found = await asyncio.gather(*map(self._ask, asked))
        groups = [group for each in found if each is not None for group in each]
        silent = [node for node, each in zip(asked, found, strict=True) if each is None]
        return GroupsElsewhere(groups, silent)

    async def _ask(self, node: int) -> Any:
        """The groups of a node, None if it does not tell them."""
        try:
            async with asyncio.timeout(WITHIN_S):
                response = await self._connections.to(node).ask(
                    _LIST_GROUPS, _VERSION, states_filter=[], types_filter=[]
                )
        except (NodeUnreachableError, TimeoutError):
            return None
        return None if response.error_code else response.groups

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._connections.close()
