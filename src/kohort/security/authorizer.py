"""The authorizer: decisions of the ACLs, cached until the ACLs change.

*Bounds.* The cache has `MAX_DECISIONS` names over all clients, and is cleared when it is full.
Names longer than a topic's are not cached. So it takes at most about 30 MB.
"""

from collections.abc import Collection, Mapping
from typing import Final

from kohort.security.acls import CLUSTER_NAME, AclOperation, Acls, ResourceType
from kohort.security.principal import LOCAL, KafkaPrincipal

MAX_DECISIONS: Final = 65_536
MAX_CLIENTS: Final = 4_096
"""Maximum number of (principal, host) pairs with cached decisions."""
MAX_NAME_LENGTH: Final = 249
"""Maximum length of a cached name: that of a topic."""

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

OPERATIONS: Final = {
    TOPIC: tuple(AclOperation(code) for code in (3, 4, 5, 6, 7, 8, 10, 11)),
    GROUP: tuple(AclOperation(code) for code in (3, 6, 8, 10, 11)),
    CLUSTER: tuple(AclOperation(code) for code in (5, 7, 8, 9, 10, 11, 12)),
}
"""The operations of a resource type in responses (KIP-430)."""


_LOCAL: Final = f"{LOCAL}:"
"""Prefix of the principals of a Unix socket, which may do everything."""


def super_users(text: str) -> frozenset[str]:
    """The principals in Kafka's `super.users`, which `;` separates. Raises ValueError."""
    principals = (name.strip() for name in text.split(";"))
    return frozenset(str(KafkaPrincipal.parse(name)) for name in principals if name)


class Authorizer:
    """Decides which operations each client may perform."""

    def __init__(
        self, acls: Acls, super_users: Collection[str] = (), *, allow_everyone: bool = False
    ) -> None:
        """`super_users` are principals as text, which may do everything.

        `allow_everyone`: whether all clients may use resources without entries.
        """
        self.acls = acls
        self.super_users = frozenset(super_users)
        self.allow_everyone = allow_everyone
        self._version = acls.version
        self._clients: dict[tuple[KafkaPrincipal, str], Permissions] = {}
        self._remembered = 0
        self.forgotten = 0
        """Number of times that the cache was cleared, which invalidates results of `of`."""

    def __repr__(self) -> str:
        return f"<Authorizer acls={len(self.acls)} clients={len(self._clients)}>"

    def of(self, principal: KafkaPrincipal, host: str) -> "Permissions":
        """Permissions of a principal from a host; valid until the ACLs change."""
        if self._version != self.acls.version:
            self._forget()
        client = (principal, host)
        permissions = self._clients.get(client)
        if permissions is None:
            if len(self._clients) >= MAX_CLIENTS:
                self._forget()
            permissions = self._clients[client] = Permissions(self, str(principal), host)
        return permissions

    def _forget(self) -> None:
        self._version = self.acls.version
        self._clients.clear()
        self._remembered = 0
        self.forgotten += 1

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the current ACLs allow the operation."""
        if principal in self.super_users or principal.startswith(_LOCAL):
            return True
        decision = self.acls.decide(principal, host, operation, resource_type, name)
        return self.allow_everyone if decision is None else decision

    def remembers(self, name: str) -> bool:
        """Whether to cache a decision on this name; clears a full cache."""
        if len(name) > MAX_NAME_LENGTH:
            return False
        if self._remembered >= MAX_DECISIONS:
            self._forget()
            return False
        self._remembered += 1
        return True


class Permissions:
    """Permissions of one client under one version of the ACLs."""

    __slots__ = ("_authorizer", "_decided", "_host", "_principal", "_some")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._decided: dict[tuple[AclOperation, ResourceType], dict[str, bool]] = {}
        self._some: dict[tuple[AclOperation, ResourceType], bool] = {}

    def __repr__(self) -> str:
        return f"<Permissions {self._principal} from {self._host}>"

    def decided(self, operation: AclOperation, resource_type: ResourceType) -> Mapping[str, bool]:
        """Decisions by name; `allows` adds to it. A lookup costs less than a call of `allows`."""
        return self._decided.setdefault((operation, resource_type), {})

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may perform the operation on the resource of this name."""
        decided = self._decided.setdefault((operation, resource_type), {})
        decision = decided.get(name)
        if decision is None:
            decision = self._authorizer.decide(
                self._principal, self._host, operation, resource_type, name
            )
            if self._authorizer.remembers(name):
                decided[name] = decision
        return decision

    def allows_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may perform the operation on some resource of this type.

        As in Kafka, the operation must be allowed itself, not by an operation that implies it.
        """
        key = (operation, resource_type)
        decision = self._some.get(key)
        if decision is None:
            authorizer = self._authorizer
            decision = self._some[key] = authorizer.decide(
                self._principal, self._host, operation, resource_type, "hardcode"
            ) or authorizer.acls.allows_some(self._principal, self._host, operation, resource_type)
        return decision

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The allowed operations, as a bit set of their codes (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(operation, resource_type, name)
        )
