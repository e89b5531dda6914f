"""Registration of a node: what the metadata log says of its current session."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kohort.cluster import Endpoint, NodeFenced, NodeRegistered, SharedStorage
from kohort.server.cluster.join_checks import this_machine
from kohort.server.metadata_log import SharedMetadataLog
from kohort.types import Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node registers with, and how it takes and gives partitions."""

    endpoints: Sequence[Endpoint] = ()
    """What clients and other nodes connect to."""
    rack: str | None = None
    can_connect: bool = True
    """As of `NodeRegistered`."""
    rebalance_delay_ms: int
    """As of `kohort.cluster.situation`."""
    drain_timeout_ms: int
    """Time for which a node that stops hands over its partitions."""


@dataclass(slots=True, kw_only=True)
class Registration:
    """Registration of this node, and the records that change it."""

    storage: SharedStorage
    metadata: SharedMetadataLog
    settings: NodeSettings
    is_draining: bool = False
    """Whether this node gives up its leaderships: it stops, or an operator drains it."""

    @property
    def node_id(self) -> int:
        return self.storage.node_id

    @property
    def is_logged(self) -> bool:
        """Whether the metadata log has this node with its current session."""
        registered = self.metadata.state.cluster.nodes.get(self.node_id)
        return registered is not None and registered.session == self.storage.session

    def record(self, now: Timestamp) -> NodeRegistered:
        """The record that registers the current session; `now` is the storage's clock."""
        settings = self.settings
        return NodeRegistered(
            *(self.node_id, self.storage.session, tuple(settings.endpoints), now, settings.rack),
            machine=this_machine(),
            is_draining=self.is_draining,
            can_connect=settings.can_connect,
        )

    def drained(self) -> NodeRegistered:
        """The logged record, as of a node that gives up its leaderships."""
        return replace(self.metadata.state.cluster.nodes[self.node_id], is_draining=True)

    def fenced(self) -> Sequence[NodeFenced]:
        """The record that ends the registration; empty if it is not logged."""
        return [NodeFenced(self.node_id)] if self.is_logged else ()
