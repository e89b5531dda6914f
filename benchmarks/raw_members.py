"""Members of classic groups that send single requests, which a benchmark measures one by one."""

from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode, KafkaError, KohortError

SESSION_MS: Final = 45_000


class Member:
    """The only member of a group."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._identity: dict[str, Any] = {"group_id": group, "group_instance_id": None}

    async def join(self) -> None:
        """Join the group, which is Stable then."""
        connection = await self._cluster.coordinator(self._group)
        join: dict[str, Any] = {
            "group_id": self._group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "group_instance_id": None,
            "reason": None,
        }
        first = await connection.send("join_group", **join, member_id="")
        joined = await connection.send("join_group", **join, member_id=first.member_id)
        self._identity |= {"member_id": first.member_id, "generation_id": joined.generation_id}
        synced = await connection.send(
            "sync_group",
            **self._identity,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": first.member_id, "assignment": b""}],
        )
        assert not synced.error_code, f"{self._group}: {synced.error_code}"

    async def heartbeat(self) -> object:
        """Send one heartbeat to the coordinator, and return the coordinator's address.

        Raises KohortError if it fails; the next one looks the coordinator up again.
        """
        try:
            connection = await self._cluster.coordinator(self._group)
            response = await connection.send("heartbeat", **self._identity)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except KohortError:
            self._cluster.coordinator_moved(self._group)
            raise
        return connection.address
