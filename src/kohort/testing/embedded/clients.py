"""The clients that are connected to an embedded server, and those that a test has killed.

A killed client stays connected to nothing: its connections are cut, and each further request of it
cuts the connection by which it came. It cannot leave its group, so the coordinator removes it when
its session expires, as after `kill -9`.

A client is known by its client id, or by its member id if it is a member of a group. Two clients of
one program often have the same client id (librdkafka's default is `rdkafka`), but each member id is
unique.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from kohort.errors import ErrorCode, KohortError
from kohort.protocol.apis import BY_NAME
from kohort.server.net import Connection, Exchange
from kohort.testing.embedded.error_responses import error_response

MEMBER_APIS: Final = frozenset(
    BY_NAME[name].key
    for name in (
        "join_group",
        "sync_group",
        "heartbeat",
        "leave_group",
        "offset_commit",
        "consumer_group_heartbeat",
    )
)
"""APIs whose requests name members."""
_HEARTBEAT: Final = BY_NAME["heartbeat"].key
_LEAVING_APIS: Final = frozenset(BY_NAME[name].key for name in ("leave_group", "offset_commit"))


@dataclass(slots=True)
class _Connected:
    client_id: str
    members: set[tuple[str, str]] = field(default_factory=set)
    """Group and member id, of the members whose requests came by this connection."""


class Clients:
    """Registry of the connected clients. It is used on the loop of the server."""

    def __init__(self) -> None:
        self._connected: dict[Connection, _Connected] = {}
        self._killed_clients: set[str] = set()
        self._killed_members: set[str] = set()
        self._may_leave = False

    def admit(self, exchange: Exchange, request: Any) -> bool:
        """Whether the server handles the request; if not, its connection is usually cut.

        `request` is the decoded one of an API of `MEMBER_APIS`, else None.
        """
        connection = cast("Connection", exchange.connection)
        connected = self._connected.get(connection)
        if connected is None:
            connected = self._connected[connection] = _Connected(exchange.client_id)
            connection.when_closed(self._closed)
        members = () if request is None else tuple(members_of(request))
        connected.members.update(members)
        killed = exchange.client_id in self._killed_clients or any(
            member_id in self._killed_members for _, member_id in members
        )
        if not killed or (self._may_leave and _leaves(exchange, request)):
            return True
        if self._may_leave and exchange.api_key == _HEARTBEAT:
            # A cut would take the client's other requests with it, an error would make it rejoin.
            exchange.respond(error_response(_HEARTBEAT, exchange.version, request, ErrorCode.none))
        else:
            connection.abort()
        return False

    def kill(self, *, client_id: str | None = None, member_id: str | None = None) -> int:
        """Cut the connections of a client now and from now on; returns how many were open."""
        if client_id is not None:
            self._killed_clients.add(client_id)
        if member_id is not None:
            self._killed_members.add(member_id)
        cut = [
            connection
            for connection, connected in self._connected.items()
            if connected.client_id == client_id
            or any(member == member_id for _, member in connected.members)
        ]
        for connection in cut:
            connection.abort()
        return len(cut)

    def revive(self) -> None:
        """Serve all killed clients again."""
        self._killed_clients.clear()
        self._killed_members.clear()
        self._may_leave = False

    def let_leave(self) -> None:
        """Serve the requests by which killed clients close; they cannot become members again."""
        self._may_leave = True

    def connected_members(self) -> frozenset[tuple[str, str]]:
        """Group and member id of all members with an open connection."""
        return frozenset(
            member for connected in self._connected.values() for member in connected.members
        )

    def _closed(self, connection: Connection) -> None:
        self._connected.pop(connection, None)


def _leaves(exchange: Exchange, request: Any) -> bool:
    """Whether a request does not make or keep its client a member."""
    if request is None or exchange.api_key in _LEAVING_APIS:
        return True
    return getattr(request, "member_epoch", 0) < 0  # ConsumerGroupHeartbeat


def members_of(request: Any) -> Iterator[tuple[str, str]]:
    """Group and member id of the members that a request of `MEMBER_APIS` names."""
    for named in (request, *getattr(request, "members", ())):
        member_id = getattr(named, "member_id", "")
        if member_id:
            yield request.group_id, member_id


def find_member_id(client: object) -> str | None:
    """The member id of a consumer of confluent-kafka, aiokafka, kafka-python or `kohort.client`.

    None if it has not joined a group, or is no consumer of one of these.
    """
    return next((found for find in _MEMBER_IDS if (found := find(client))), None)


def find_client_id(client: object) -> str | None:
    """The client id of a client of aiokafka, kafka-python or `kohort.client`; None if unknown.

    Clients of confluent-kafka do not tell theirs.
    """
    config = getattr(client, "config", None)
    if isinstance(config, dict):  # kafka-python
        return config.get("client_id")
    inner = getattr(client, "client", None) or getattr(client, "_client", None)  # aiokafka
    if inner is not None:
        return getattr(inner, "_client_id", None)
    cluster = _attribute(client, "cluster") or _attribute(client, "_cluster")  # kohort.client
    return getattr(getattr(cluster, "config", None), "client_id", None)


def identify(client: object) -> tuple[str | None, str | None]:
    """Client id and member id of a client, one of them; a string is a client id.

    Raises KohortError if the client tells neither.
    """
    if isinstance(client, str):
        return client, None
    member_id = find_member_id(client)
    if member_id:
        return None, member_id
    client_id = find_client_id(client)
    if client_id:
        return client_id, None
    raise KohortError(
        f"{type(client).__module__}.{type(client).__name__} does not tell its member id or client "
        "id: wait until it has joined its group, or set its client.id and kill(client_id=…)"
    )


def _attribute(client: object, name: str) -> Any:
    try:
        return getattr(client, name, None)
    except KohortError:  # a property of kohort.client, before the client is opened
        return None


def _of_confluent(client: object) -> Any:
    member_id = getattr(client, "memberid", None)
    return member_id() if callable(member_id) else None


def _of_aiokafka(client: object) -> Any:
    return getattr(getattr(client, "_coordinator", None), "member_id", None)


def _of_kafka_python(client: object) -> Any:
    generation = getattr(getattr(client, "_coordinator", None), "_generation", None)
    return getattr(generation, "member_id", None)


def _of_kohort(client: object) -> Any:
    # The blocking ConsumerGroup runs an asyncio one.
    return _attribute(client, "member_id") or _attribute(
        getattr(client, "_group", None), "member_id"
    )


_MEMBER_IDS: Final = (_of_confluent, _of_aiokafka, _of_kafka_python, _of_kohort)
