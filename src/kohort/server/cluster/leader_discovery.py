"""Current leaders in the tagged fields of Produce v10 and Fetch v16 responses (KIP-951).

For each partition that this node does not lead, a response has its leader and the leader's address.
The client needs no Metadata request.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.cluster import Leader
from kohort.errors import ErrorCode
from kohort.protocol.packing import pack_compact_array, pack_compact_string, pack_int32, pack_varint
from kohort.security.peer import Endpoint
from kohort.server.cluster.nodes import NO_NODE, Node, Nodes
from kohort.server.replicas import Topics

MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
"""Errors for which a response includes the leader, as in Kafka."""

MAX_LEADERS: Final = 1_000
"""Leaders in one response, which takes 2 ms. Clients get the others by Metadata."""

Key: TypeAlias = tuple[str | UUID | None, int]
"""Topic, as the response names it, and partition."""

_NO_TAGS: Final = b"\0"
_ONE_TAG: Final = b"\1"
_LEADER: Final = Struct(">BBBiiB").pack
"""One tagged field of 9 bytes, a LeaderIdAndEpoch."""


class CurrentLeaders(NamedTuple):
    """Current leaders for one response."""

    leaders: Mapping[Key, Leader]
    nodes: Sequence[Node]

    def tags(self, key: Key, tag: int) -> bytes:
        """The tagged fields of a partition, whose leader has this tag."""
        leader = self.leaders.get(key)
        return _NO_TAGS if leader is None else _LEADER(1, tag, 9, *leader, 0)

    def node_endpoints(self) -> bytes:
        """The tagged fields of the response, of which NodeEndpoints is tag 0."""
        if not self.nodes:
            return _NO_TAGS
        content = b"".join((pack_compact_array(len(self.nodes)), *map(_pack_node, self.nodes)))
        return b"".join((_ONE_TAG, pack_varint(0), pack_varint(len(content)), content))


NO_LEADERS: Final = CurrentLeaders({}, ())
"""The value for responses without such partitions."""


def current_leaders(
    nodes: Nodes, topics: Topics, endpoint: Endpoint, moved: Iterable[Key]
) -> CurrentLeaders:
    """Leaders of the partitions `moved` for a client of this endpoint, at most `MAX_LEADERS`."""
    leaders: dict[Key, Leader] = {}
    for key in islice(moved, MAX_LEADERS):
        name, partition = key
        topic = topics.get(name) if isinstance(name, str) else name and topics.by_id(name)
        if topic and partition < len(topic.partitions):
            leader = nodes.leader(topic, partition)
            if leader != Leader():
                leaders[key] = leader
    ids = dict.fromkeys(leader.node for leader in leaders.values())
    leader_nodes = (nodes.node(node_id, endpoint) for node_id in ids)
    return CurrentLeaders(leaders, [node for node in leader_nodes if node is not NO_NODE])


def _pack_node(node: Node) -> bytes:
    host, rack = pack_compact_string(node.host), pack_compact_string(node.rack)
    return b"".join((pack_int32(node.id), host, pack_int32(node.port), rack, _NO_TAGS))
