"""Partitions of `__consumer_offsets` that no node serves, as this node knows it.

A list of groups lacks the groups of these partitions.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kohort.cluster import NO_LEADER
from kohort.runtime.groups import Groups
from kohort.server.cluster.nodes import Nodes
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.server.replicas import Topics


class GroupAvailability(NamedTuple):
    """Numbers of the partitions of `__consumer_offsets` that are not served."""

    without_leader: int
    not_yet_opened: int
    """This node leads them, but has not opened them, or has lost its lease."""

    def reasons(self) -> Iterator[str]:
        """Why groups cannot be listed; empty if they can."""
        if self.without_leader:
            yield f"{self.without_leader} group partitions have no leader"
        if self.not_yet_opened:
            yield f"{self.not_yet_opened} group partitions are yet to be taken by this node"


def check_group_availability(
    nodes: Nodes, topics: Topics, groups: Groups, node_id: int
) -> GroupAvailability:
    """The partitions that are not served now. `node_id` is that of this node."""
    topic = topics.get(OFFSETS_TOPIC)
    leaders = [] if topic is None else [leader.node for leader in nodes.leaders(topic)]
    not_yet_opened = (
        leader == node_id and groups.is_elsewhere(partition)
        for partition, leader in enumerate(leaders)
    )
    return GroupAvailability(leaders.count(NO_LEADER), sum(not_yet_opened))
