"""Requests between the nodes of a cluster: metadata, changes, transactions, groups, offsets.

The workers of a machine connect to each other by a listener of their own, `NODE_LISTENER`, other
nodes by `inter.broker.listener.name`. Among workers, the controller writes the metadata log. The
other workers follow the log, and forward changes to the controller.
"""

from kohort.server.cluster.internode.by_listener import ByListener
from kohort.server.cluster.internode.connection import Connect, NodeConnection, by_socket
from kohort.server.cluster.internode.group_listing import GroupsElsewhere
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.internode.log_offsets import FindLogOffsets, LogOffsets
from kohort.server.cluster.internode.metadata_follower import MetadataFollower
from kohort.server.cluster.internode.remote_controller import RemoteController
from kohort.server.cluster.internode.routes import Routes

__all__ = [
    "ByListener",
    "Connect",
    "FindLogOffsets",
    "GroupsElsewhere",
    "LogOffsets",
    "MetadataFollower",
    "NodeConnection",
    "NodeUnreachableError",
    "RemoteController",
    "Routes",
    "by_socket",
]
