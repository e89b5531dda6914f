"""Partitions of `__consumer_offsets` that nobody serves, as one node knows it.

A list of groups lacks what is in them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kohort.cluster import NO_LEADER
from kohort.runtime.groups import Groups
from kohort.server.nodes import Nodes
from kohort.server.topics import OFFSETS_TOPIC, Topics


class Unserved(NamedTuple):
    """How many partitions of groups are not served."""

    without_leader: int
    here: int
    """Those that are to be led by this node, which has not taken them, or has lost its lease."""

    def reasons(self) -> Iterator[str]:
        """Why groups cannot be listed; empty if they can."""
        if self.without_leader:
            yield f"{self.without_leader} group partitions have no leader"
        if self.here:
            yield f"{self.here} group partitions are yet to be taken by this node"


def unserved(nodes: Nodes, topics: Topics, groups: Groups, node_id: int) -> Unserved:
    """Those of this moment. `node_id` is that of this node."""
    topic = topics.get(OFFSETS_TOPIC)
    leaders = [] if topic is None else [leader.node for leader in nodes.leaders(topic)]
    here = (
        leader == node_id and groups.is_elsewhere(partition)
        for partition, leader in enumerate(leaders)
    )
    return Unserved(leaders.count(NO_LEADER), sum(here))
