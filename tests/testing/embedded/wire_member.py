"""A member of a classic group that sends what a test tells it to, by a blocking socket."""

import select
import socket
import struct
from collections.abc import Mapping
from typing import Any

from kio.serial import entity_reader

from kohort.protocol.apis import BY_NAME
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import encode, request, response_body_at
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicPartition

PATIENCE_S = 60


class WireClient:
    """A connection of a client."""

    def __init__(self, bootstrap: str, client_id: str = "client") -> None:
        host, _, port = bootstrap.rpartition(":")
        self.client_id = client_id
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.expected = 0
        """Bytes of the last response, as its beginning says."""
        self.received = 0
        """Bytes of the last response that came."""

    def close(self) -> None:
        self._socket.close()

    def send(self, api: str, version: int, /, **fields: Any) -> None:
        key, client_id = BY_NAME[api].key, self.client_id.encode()
        head = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id
        tags = b"\0" if BY_NAME[api].flexible(version) else b""
        content = head + tags + encode(request(key, version, **fields))
        self._socket.sendall(struct.pack(">i", len(content)) + content)

    def receive(self, api: str, version: int) -> Any:
        """The next response. Raises ConnectionError if the server has cut the connection."""
        (self.expected,) = struct.unpack(">i", self._read(4))
        content, key = self._read(self.expected), BY_NAME[api].key
        read = entity_reader(load_response_schema(key, version))
        entity, _ = read(content, response_body_at(key, version))
        return entity

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        self.send(api, version, **fields)
        return self.receive(api, version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            read = self._socket.recv(size - len(data))
            if not read:
                raise ConnectionError("the server closed the connection")
            data += read
            self.received = len(data)
        return data

    def has_response(self) -> bool:
        """Whether bytes have come that were not read."""
        readable, _, _ = select.select([self._socket], [], [], 0)
        return bool(readable)


class WireMember(WireClient):
    """A member of `group`, which offers the protocol "range" for the topic `orders`."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "client",
        group: str = "billing",
        session_timeout_ms: int = 45_000,
    ) -> None:
        super().__init__(bootstrap, client_id)
        self.group = group
        self.session_timeout_ms = session_timeout_ms
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    def send_join(self) -> None:
        """Begin to join; a new member gets its id."""
        if not self.member_id:
            self._send_join()
            self.member_id = self.receive("join_group", 5).member_id
        self._send_join()

    def _send_join(self) -> None:
        self.send(
            "join_group",
            5,
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=300_000,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[
                {
                    "name": "range",
                    "metadata": encode_subscription(Subscription(topics=("orders",))),
                }
            ],
        )

    def joined(self) -> None:
        """Wait for the end of the join phase."""
        response = self.receive("join_group", 5)
        assert not response.error_code
        self.generation, self.leader = response.generation_id, response.leader

    def sync(self, partitions: Mapping[str, int] | None = None) -> str:
        """Kafka's name of the error; the leader assigns one partition to each member id."""
        response = self.ask(
            "sync_group",
            3,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            assignments=[
                {
                    "member_id": member_id,
                    "assignment": encode_assignment(
                        Assignment(partitions=(TopicPartition("orders", partition),))
                    ),
                }
                for member_id, partition in (partitions or {}).items()
            ],
        )
        return str(response.error_code.name)

    def heartbeat(self) -> str:
        """Kafka's name of the error."""
        response = self.ask(
            "heartbeat",
            3,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
        )
        return str(response.error_code.name)

    def commit(self, offset: int) -> str:
        """Kafka's name of the error of a commit for partition 0 of `orders`."""
        response = self.ask(
            "offset_commit",
            7,
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            topics=[
                {
                    "name": "orders",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        )
        return str(response.topics[0].partitions[0].error_code.name)


def make_stable(*members: WireMember) -> None:
    """Have new members join a group one after the other; each gets the partition of its index."""
    for count in range(1, len(members) + 1):
        joining = members[:count]
        for member in reversed(joining):
            member.send_join()
        for member in joining:
            member.joined()
        partitions = {member.member_id: index for index, member in enumerate(joining)}
        assert joining[0].sync(partitions) == "none"
        for member in joining[1:]:
            assert member.sync() == "none"
