"""Access control lists: entries, and an index for decisions.

An entry allows or denies a principal one operation on resources, from one host or network. It
applies to a resource if it has the resource's name, the name `*`, or a prefix of the name. The
rules are those of Kafka's StandardAuthorizer:

1. an entry that denies the operation decides;
2. otherwise an entry that allows it: READ, WRITE, DELETE and ALTER also allow DESCRIBE, and
   ALTER_CONFIGS also allows DESCRIBE_CONFIGS, while a denial implies no other;
3. otherwise a resource with entries of any principal is denied;
4. a resource without entries depends on `allow.everyone.if.no.acl.found`.

*Cost.* Entries are indexed by name, then by principal and host. So a decision takes a dictionary
lookup or two for the name, `*`, and each length of a prefix, whatever the number of entries.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from kohort.security.acl_hosts import WILDCARD, AclHosts

K = TypeVar("K")
T = TypeVar("T")

ANYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    """Types of resources, by Kafka's codes; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Types of resource patterns; ANY and MATCH only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operations that are allowed or denied; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """Whether an entry allows or denies; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in set(operations))


_DENIES: Final = {operation: _bits((AclOperation.ALL, operation)) for operation in AclOperation}
"""Operation → bits of the operations whose denial denies it."""
_ALLOWS: Final = {
    operation: _bits((AclOperation.ALL, operation, *_IMPLIED_BY.get(operation, ())))
    for operation in AclOperation
}
"""Operation → bits of the operations that allow it."""


class AclBinding(NamedTuple):
    """One entry."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """As text: "User:alice"."""
    host: str
    """An IP address as text, a network in CIDR notation, or `*`."""
    operation: AclOperation
    permission_type: AclPermissionType


class AclBindingFilter(NamedTuple):
    """Filter of entries to describe or delete; null or ANY matches all."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Whether `binding` matches; names of principals and hosts have no wildcards."""
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission_type in (AclPermissionType.ANY, binding.permission_type)
            and self._matches_name(binding.resource_name, binding.pattern_type)
        )

    def _matches_name(self, name: str, pattern_type: PatternType) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern_type):
            return False
        if self.resource_name in (None, name):
            return True
        if self.pattern_type is not PatternType.MATCH or self.resource_name is None:
            return False
        if pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(name)
        return name == WILDCARD


class _Rule:
    """The operations that a principal is allowed and denied from a host, as bits."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = self.denied = 0


_Rules = dict[tuple[str, str], _Rule]
"""The rules of one resource pattern, by principal and host."""
_NO_RULES: Final[Mapping[tuple[str, str], _Rule]] = MappingProxyType({})


class Acls:
    """All entries; only `add` and `remove` change them."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with each change."""
        self._bindings: dict[UUID, AclBinding] = {}
        self._ids: dict[AclBinding, UUID] = {}
        self._rules: dict[tuple[ResourceType, PatternType, str], _Rules] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {}
        """Number of patterns with a prefix of each length."""
        self._patterns: dict[tuple[ResourceType, str], Counter[tuple[PatternType, str]]] = {}
        """Patterns with entries of a principal, with the number of hosts."""
        self._hosts = AclHosts()

    def __len__(self) -> int:
        return len(self._bindings)

    def get(self, acl_id: UUID) -> AclBinding | None:
        """The entry with this id."""
        return self._bindings.get(acl_id)

    def id_of(self, binding: AclBinding) -> UUID | None:
        """The id of this entry, None if it does not exist."""
        return self._ids.get(binding)

    def snapshot(self) -> Mapping[UUID, AclBinding]:
        """A copy of the entries by id, in the order in which they were added."""
        return self._bindings.copy()

    def rules_of(self, kind: ResourceType, pattern_type: PatternType, name: str) -> int:
        """Number of (principal, host) pairs with entries of one resource pattern."""
        return len(self._rules.get((kind, pattern_type, name), _NO_RULES))

    def patterns_of(self, kind: ResourceType, name: str) -> list[tuple[PatternType, str]]:
        """The patterns with entries that match a name."""
        prefixes = (name[:length] for length in self._lengths.get(kind, ()) if length <= len(name))
        patterns = [
            *((PatternType.LITERAL, literal) for literal in dict.fromkeys((name, WILDCARD))),
            *((PatternType.PREFIXED, prefix) for prefix in prefixes),
        ]
        return [pattern for pattern in patterns if (kind, *pattern) in self._rules]

    def of_pattern(
        self, kind: ResourceType, pattern_type: PatternType, name: str
    ) -> Iterator[tuple[UUID, AclBinding]]:
        """The entries of one resource pattern with their ids; the cost ignores other entries.

        Entries that are removed meanwhile are left out.
        """
        rules = self._rules.get((kind, pattern_type, name), _NO_RULES)
        for (principal, host), rule in tuple(rules.items()):
            for permission_type, bits in (
                (AclPermissionType.ALLOW, rule.allowed),
                (AclPermissionType.DENY, rule.denied),
            ):
                for operation in AclOperation:
                    if bits & 1 << operation:
                        binding = AclBinding(
                            kind, name, pattern_type, principal, host, operation, permission_type
                        )
                        if (acl_id := self._ids.get(binding)) is not None:
                            yield acl_id, binding

    def add(self, acl_id: UUID, binding: AclBinding) -> None:
        """Add an entry that does not exist yet."""
        self.version += 1
        self._bindings[acl_id] = binding
        self._ids[binding] = acl_id
        kind, name, pattern_type, principal, host, operation, permission_type = binding
        pattern = (kind, pattern_type, name)
        rules = self._rules.get(pattern)
        if rules is None:
            rules = self._rules[pattern] = {}
            if pattern_type is PatternType.PREFIXED:
                self._lengths.setdefault(kind, Counter())[len(name)] += 1
        rule = rules.get((principal, host))
        if rule is None:
            rule = rules[principal, host] = _Rule()
            self._hosts.add(host)
            self._patterns.setdefault((kind, principal), Counter())[pattern_type, name] += 1
        if permission_type is AclPermissionType.ALLOW:
            rule.allowed |= 1 << operation
        else:
            rule.denied |= 1 << operation

    def remove(self, acl_id: UUID) -> None:
        """Remove an entry; no-op if there is none with this id."""
        binding = self._bindings.pop(acl_id, None)
        if binding is None:
            return
        self.version += 1
        del self._ids[binding]
        kind, name, pattern_type, principal, host, operation, permission_type = binding
        rules = self._rules[kind, pattern_type, name]
        rule = rules[principal, host]
        if permission_type is AclPermissionType.ALLOW:
            rule.allowed &= ~(1 << operation)
        else:
            rule.denied &= ~(1 << operation)
        if not (rule.allowed or rule.denied):
            del rules[principal, host]
            self._hosts.remove(host)
            _count_down(self._patterns, (kind, principal), (pattern_type, name))
        if not rules:
            del self._rules[kind, pattern_type, name]
            if pattern_type is PatternType.PREFIXED:
                _count_down(self._lengths, kind, len(name))

    # Decisions

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool | None:
        """Whether the operation is allowed; None if the resource has no entries."""
        denies, allows = _DENIES[operation], _ALLOWS[operation]
        keys = _keys(principal, self._hosts.of(host))
        has_rule, allowed = False, False
        for rules in self._about(resource_type, name):
            has_rule = True
            for key in keys:
                rule = rules.get(key)
                if rule is not None:
                    if rule.denied & denies:
                        return False
                    allowed = allowed or bool(rule.allowed & allows)
        return allowed if has_rule else None

    def _about(self, kind: ResourceType, name: str) -> Iterator[_Rules]:
        """The rules of every pattern that matches a name."""
        every = self._rules
        for literal in (name, WILDCARD):
            rules = every.get((kind, PatternType.LITERAL, literal))
            if rules is not None:
                yield rules
            if name == WILDCARD:
                break
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                rules = every.get((kind, PatternType.PREFIXED, name[:length]))
                if rules is not None:
                    yield rules

    def allows_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether entries allow the operation itself on some resource of this type.

        True if it is allowed for a pattern that no denial covers as a whole, by `*`, the same name,
        or a prefix of it.
        """
        bits = _DENIES[operation]
        keys = _keys(principal, self._hosts.of(host))

        def of(pattern_type: PatternType, name: str) -> Mapping[tuple[str, str], _Rule]:
            return self._rules.get((resource_type, pattern_type, name), _NO_RULES)

        def denied(rules: Mapping[tuple[str, str], _Rule]) -> bool:
            return any(key in rules and rules[key].denied & bits for key in keys)

        def allowed(rules: Mapping[tuple[str, str], _Rule]) -> bool:
            return any(key in rules and rules[key].allowed & bits for key in keys)

        everything = of(PatternType.LITERAL, WILDCARD)
        if denied(everything):
            return False
        if allowed(everything):
            return True
        lengths = self._lengths.get(resource_type, Counter())
        for name_of_user in dict.fromkeys(key[0] for key in keys):
            for pattern_type, name in self._patterns.get((resource_type, name_of_user), ()):
                rules = of(pattern_type, name)
                if (
                    allowed(rules)
                    and not denied(rules)
                    and not any(
                        denied(of(PatternType.PREFIXED, name[:length]))
                        for length in lengths
                        if length <= len(name)
                    )
                ):
                    return True
        return False


def _count_down(counters: dict[K, Counter[T]], key: K, item: T) -> None:
    """Decrement the count of `item`; remove zero counts and empty counters."""
    counter = counters[key]
    counter[item] -= 1
    if not counter[item]:
        del counter[item]
    if not counter:
        del counters[key]


def _keys(principal: str, hosts: tuple[str, ...]) -> list[tuple[str, str]]:
    """Keys of the rules that apply to a client, including wildcards of principal and host."""
    return [(name, host) for name in (principal, ANYBODY) for host in hosts]
