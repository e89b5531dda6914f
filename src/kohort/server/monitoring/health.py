"""Reasons why a server is not healthy, not ready, or cannot list its groups."""

import os
from typing import Final

from kohort.runtime.shard_host import HostState
from kohort.server.cluster import check_group_availability
from kohort.server.monitoring.observed_server import ObservedServer

_HEALTHY_STATES: Final = (HostState.ACTIVE.value, HostState.ELSEWHERE.value)
_MAX_PROBLEMS: Final = 100
"""Most problems of logs in one response."""


class Health:
    """Health of one server. Each method returns reasons as text, and none if all is well."""

    def __init__(self, server: ObservedServer) -> None:
        self._server = server

    def unhealthy_reasons(self) -> list[str]:
        """Shards that do not serve, a node without lease, problems of logs, an unwritable disk."""
        server = self._server
        reasons, status = self._loading(), server.status
        if status is not None:
            reasons += status.reasons()
        reasons += server.problems.texts(_MAX_PROBLEMS)
        if server.config["storage"] == "local":
            reasons += _unwritable(server.config["log.dir"])
        return reasons

    def unready_reasons(self) -> list[str]:
        """Shards that are loading, and partitions that this node is yet to lead."""
        reasons, status = self._loading(), self._server.status
        if status is not None and not status.is_ready:
            reasons += status.reasons() or [
                f"{status.awaited} partitions are yet to be taken"
                if status.is_registered
                else "this node is about to register"
            ]
        return reasons

    def unlisted_reasons(self) -> list[str]:
        """Why a list of all groups would be incomplete.

        A node that has not registered has not read the metadata log: it has neither all nodes nor
        the leaders.
        """
        server, status = self._server, self._server.status
        follows = status is None or (status.has_lease and status.is_registered)
        if not (follows and server.groups.is_loaded):
            return self.unready_reasons()
        availability = check_group_availability(
            server.cluster.nodes, server.topics, server.groups, server.node_id
        )
        return [*availability.reasons()]

    @property
    def has_lease(self) -> bool:
        """Whether no other node can have taken over partitions that this one leads."""
        status = self._server.status
        return status is None or status.has_lease

    def serves_group(self, group_id: str) -> bool:
        """Whether this node is the coordinator of a group, and may serve it."""
        groups = self._server.groups
        return self.has_lease and not groups.is_elsewhere(groups.partition_of(group_id).partition)

    def _loading(self) -> list[str]:
        server = self._server
        return [
            f"{count} of {sum(shards.values())} {kind} partitions are {state}"
            for kind, coordinator in (
                ("group", server.groups),
                ("transaction", server.transactions),
            )
            for shards in (coordinator.statistics()["shards"],)
            for state, count in shards.items()
            if count and state not in _HEALTHY_STATES
        ]


def _unwritable(directory: str) -> list[str]:
    """Why the data directory is not writable; empty if it is."""
    try:
        if not os.access(directory, os.W_OK):
            return ["the data directory is not writable"]
        space = os.statvfs(directory)
    except OSError as error:
        return [f"the data directory cannot be used: {error.strerror}"]
    return [] if space.f_bavail else ["the file system of the data directory is full"]
