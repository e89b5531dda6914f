"""Operations that each API needs: the table `NEEDS`, and the question of a handler.

A handler that has looked up `access = services.access(exchange)` asks `access.topic(name)`,
`access.group(name)` and so on: each is about the operation that the table has for the request's
API. What a denial does to the response is in the handler, beside the other errors of the same part
of the request.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from kohort.protocol.apis import ALL_APIS
from kohort.security import Peer
from kohort.security.acls import CLUSTER_NAME, AclOperation, Acls, ResourceType
from kohort.security.authorizer import OPERATIONS, Authorizer, Permissions, super_users
from kohort.server.config import Config
from kohort.server.logging import AuditLog

READ, WRITE, CREATE, DELETE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
)
ALTER, DESCRIBE, CLUSTER_ACTION = (
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
)
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


class Needs(NamedTuple):
    """The operation that an API needs on each kind of resource that its requests are about."""

    topic: AclOperation | None = None
    group: AclOperation | None = None
    cluster: AclOperation | None = None
    transactional_id: AclOperation | None = None


NOTHING: Final = Needs()
MAX_PEERS: Final = 16_384

NEEDS: Final[Mapping[str, Needs]] = MappingProxyType(
    {
        "api_versions": NOTHING,
        "sasl_handshake": NOTHING,
        "sasl_authenticate": NOTHING,
        # Records
        "produce": Needs(topic=WRITE, transactional_id=WRITE),
        "fetch": Needs(topic=READ),
        "list_offsets": Needs(topic=DESCRIBE),
        "offset_for_leader_epoch": Needs(topic=DESCRIBE),
        "delete_records": Needs(topic=DELETE),
        "describe_producers": Needs(topic=READ),
        # Topics; with CREATE or DELETE on the cluster, that of a topic is not needed.
        "metadata": Needs(topic=DESCRIBE),
        "describe_topic_partitions": Needs(topic=DESCRIBE),
        "create_topics": Needs(topic=CREATE, cluster=CREATE),
        "delete_topics": Needs(topic=DELETE, cluster=DELETE),
        "create_partitions": Needs(topic=ALTER),
        # Groups
        "find_coordinator": Needs(  # the cluster for share groups
            group=DESCRIBE, transactional_id=DESCRIBE, cluster=CLUSTER_ACTION
        ),
        "join_group": Needs(group=READ),
        "sync_group": Needs(group=READ),
        "heartbeat": Needs(group=READ),
        "leave_group": Needs(group=READ),
        "consumer_group_heartbeat": Needs(group=READ, topic=DESCRIBE),
        "offset_commit": Needs(group=READ, topic=READ),
        "offset_fetch": Needs(group=DESCRIBE, topic=DESCRIBE),
        "offset_delete": Needs(group=DELETE, topic=READ),
        "describe_groups": Needs(group=DESCRIBE),
        "consumer_group_describe": Needs(group=DESCRIBE, topic=DESCRIBE),
        "list_groups": Needs(group=DESCRIBE, cluster=DESCRIBE),
        "delete_groups": Needs(group=DELETE),
        # Transactions; a producer without transactional id needs WRITE on some topic instead.
        "init_producer_id": Needs(transactional_id=WRITE, cluster=IDEMPOTENT_WRITE, topic=WRITE),
        "add_partitions_to_txn": Needs(transactional_id=WRITE, topic=WRITE, cluster=CLUSTER_ACTION),
        "add_offsets_to_txn": Needs(transactional_id=WRITE, group=READ),
        "txn_offset_commit": Needs(transactional_id=WRITE, group=READ, topic=READ),
        "end_txn": Needs(transactional_id=WRITE),
        "write_txn_markers": Needs(cluster=ALTER),  # or CLUSTER_ACTION
        "describe_transactions": Needs(transactional_id=DESCRIBE, topic=DESCRIBE),
        "list_transactions": Needs(transactional_id=DESCRIBE),
        # Configs: those of brokers, loggers and client metrics are the cluster's.
        "describe_configs": Needs(
            topic=DESCRIBE_CONFIGS, group=DESCRIBE_CONFIGS, cluster=DESCRIBE_CONFIGS
        ),
        "alter_configs": Needs(topic=ALTER_CONFIGS, group=ALTER_CONFIGS, cluster=ALTER_CONFIGS),
        "incremental_alter_configs": Needs(
            topic=ALTER_CONFIGS, group=ALTER_CONFIGS, cluster=ALTER_CONFIGS
        ),
        "list_config_resources": Needs(cluster=DESCRIBE_CONFIGS),
        "describe_client_quotas": Needs(cluster=DESCRIBE_CONFIGS),
        "alter_client_quotas": Needs(cluster=ALTER_CONFIGS),
        # The cluster
        "describe_cluster": NOTHING,
        "describe_acls": Needs(cluster=DESCRIBE),
        "create_acls": Needs(cluster=ALTER),
        "delete_acls": Needs(cluster=ALTER),
        "describe_user_scram_credentials": Needs(cluster=DESCRIBE),
        "alter_user_scram_credentials": Needs(cluster=ALTER),
        "describe_log_dirs": Needs(cluster=DESCRIBE),
        "describe_quorum": Needs(cluster=DESCRIBE),
        "list_partition_reassignments": Needs(cluster=DESCRIBE),
        "alter_partition_reassignments": Needs(cluster=ALTER),
        "elect_leaders": Needs(cluster=ALTER),
        "update_features": Needs(cluster=ALTER),
    }
)
"""By API, as Kafka's `KafkaApis` and `ControllerApis` check them."""


class Question(Protocol):
    """The parts of a request that authorization depends on."""

    api_key: int

    @property
    def peer(self) -> Peer:
        """The client that asks."""
        ...


class Audit(NamedTuple):
    """Writes the decisions on requests of one client to one API."""

    log: AuditLog
    peer: Peer
    api: str

    @property
    def allowed_too(self) -> bool:
        return self.log.allowed_too

    def record(self, operation: AclOperation, kind: ResourceType, name: str, allowed: bool) -> None:
        self.log.record(self.peer, self.api, operation, kind, name, allowed)


class Access:
    """Permissions of the client of a request, as the ACLs are when the request comes."""

    __slots__ = ("_audit", "_groups", "_needs", "_permissions", "_topics")

    def __init__(self, needs: Needs, permissions: Permissions, audit: Audit | None = None) -> None:
        self._needs = needs
        self._permissions = permissions
        self._audit = audit
        self._topics: Mapping[str, bool] = {}
        self._groups: Mapping[str, bool] = {}
        if audit is None or not audit.allowed_too:
            # Most requests are about the same few names, whose decisions are cached.
            self._topics = _decided(permissions, needs.topic, TOPIC)
            self._groups = _decided(permissions, needs.group, GROUP)

    def quietly(self) -> "Access":
        """The same without lines in the audit log: for lists, which omit denied entries."""
        return self if self._audit is None else Access(self._needs, self._permissions)

    def topic(self, name: str) -> bool:
        """Whether the API may be used on this topic, which need not exist."""
        return self._topics.get(name) or self._has(self._needs.topic, TOPIC, name)

    def group(self, name: str) -> bool:
        """Whether the API may be used on this group."""
        return self._groups.get(name) or self._has(self._needs.group, GROUP, name)

    def cluster(self) -> bool:
        """Whether the API may be used on the cluster."""
        return self._has(self._needs.cluster, CLUSTER, CLUSTER_NAME)

    def transactional_id(self, name: str) -> bool:
        """Whether the API may be used with this transactional id."""
        return self._has(self._needs.transactional_id, TRANSACTIONAL_ID, name)

    def may(
        self,
        operation: AclOperation,
        kind: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the client may do what the API does not need by itself.

        With `log_if_denied` False a denial is not in the audit log: something else decides then.
        """
        allowed = self._permissions.allows(operation, kind, name)
        if self._audit is not None and (self._audit.allowed_too if allowed else log_if_denied):
            self._audit.record(operation, kind, name, allowed)
        return allowed

    def some_topic(self) -> bool:
        """Whether the API may be used on some topic."""
        assert self._needs.topic is not None
        return self._permissions.allows_some(self._needs.topic, TOPIC)

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the client may do, as a bit set (KIP-430)."""
        return self._permissions.operations(kind, name)

    def _has(self, operation: AclOperation | None, kind: ResourceType, name: str) -> bool:
        assert operation is not None, f"the API has no needs of {kind!r}"
        return self.may(operation, kind, name)


def _decided(
    permissions: Permissions, operation: AclOperation | None, kind: ResourceType
) -> Mapping[str, bool]:
    return {} if operation is None else permissions.decided(operation, kind)


class _Everything(Access):
    """Permissions of all clients without an authorizer."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def quietly(self) -> Access:
        return self

    def topic(self, name: str) -> bool:  # noqa: ARG002
        return True

    def group(self, name: str) -> bool:  # noqa: ARG002
        return True

    def cluster(self) -> bool:
        return True

    def transactional_id(self, name: str) -> bool:  # noqa: ARG002
        return True

    def may(
        self,
        operation: AclOperation,  # noqa: ARG002
        kind: ResourceType,  # noqa: ARG002
        name: str = CLUSTER_NAME,  # noqa: ARG002
        *,
        log_if_denied: bool = True,  # noqa: ARG002
    ) -> bool:
        return True

    def some_topic(self) -> bool:
        return True

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:  # noqa: ARG002
        return _ALL_OPERATIONS[kind]


_ALL_OPERATIONS: Final = {
    kind: sum(1 << operation for operation in operations) for kind, operations in OPERATIONS.items()
}
EVERYTHING: Final = _Everything()

FindAccess = Callable[[Question], Access]


def allow_everything(_: Question) -> Access:
    """Access without an authorizer."""
    return EVERYTHING


def access_of(config: Config, acls: Acls, audit: AuditLog | None = None) -> FindAccess:
    """Return the function that finds the access of clients; `audit` gets its decisions."""
    if config["authorizer.class.name"] is None:
        return allow_everything
    authorizer = Authorizer(
        acls,
        super_users(config["super.users"]),
        allow_everyone=config["allow.everyone.if.no.acl.found"],
    )
    return Authorization(authorizer, audit).access


class Authorization:
    """Permissions of the client of each request.

    They are cached by connection and API until the ACLs change, for up to `MAX_PEERS` connections.
    """

    def __init__(self, authorizer: Authorizer, audit: AuditLog | None = None) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._version = authorizer.acls.version
        self._forgotten = authorizer.forgotten
        self._peers: dict[int, _CachedPeer] = {}
        """By the identity of the peer, one per connection, which is kept alive here."""

    def access(self, question: Question) -> Access:
        """Permissions of its client."""
        peer, authorizer = question.peer, self._authorizer
        if self._version != authorizer.acls.version or self._forgotten != authorizer.forgotten:
            self._peers.clear()
            self._version, self._forgotten = authorizer.acls.version, authorizer.forgotten
        cached = self._peers.get(id(peer))
        if cached is None:
            if len(self._peers) >= MAX_PEERS:
                self._peers.clear()
            cached = self._peers[id(peer)] = _CachedPeer(peer, {})
        access = cached.accesses.get(question.api_key)
        if access is None:
            permissions = authorizer.of(peer.principal, peer.host)
            api = ALL_APIS[question.api_key].name
            audit = None if self._audit is None else Audit(self._audit, peer, api)
            access = Access(NEEDS[api], permissions, audit)
            cached.accesses[question.api_key] = access
        return access


class _CachedPeer(NamedTuple):
    peer: Peer
    accesses: dict[int, Access]
