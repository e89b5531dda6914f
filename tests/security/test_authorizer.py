"""The authorizer gives the decisions of Kafka's rules, whatever the ACLs, and does so fast."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.acl_hosts import parse_network
from kohort.security.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Acls,
    PatternType,
    ResourceType,
)
from kohort.security.authorizer import MAX_CLIENTS, MAX_DECISIONS, Authorizer
from kohort.security.principal import KafkaPrincipal

ALICE = KafkaPrincipal("User", "alice")
HOST = "10.0.0.1"
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
TOPIC = ResourceType.TOPIC

NAMES = ("a", "ab", "abc", "b", "*")
bindings = st.builds(
    AclBinding,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((LITERAL, PREFIXED)),
    st.sampled_from(("User:alice", "User:bob", "User:*")),
    st.sampled_from((HOST, "10.0.0.2", "10.0.0.0/24", "10.0.0.2/32", "*")),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ANY]),
    st.sampled_from((ALLOW, DENY)),
)


def binding(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = LITERAL,
    kind: ResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def index(entries: Iterable[AclBinding]) -> Acls:
    acls = Acls()
    for number, each in enumerate(dict.fromkeys(entries)):
        acls.add(UUID(int=number), each)
    return acls


@given(st.lists(bindings), st.sampled_from(NAMES), st.sampled_from((LITERAL, PREFIXED)))
def test_the_entries_of_a_pattern_are_those_of_its_name_and_type(entries, name, pattern):
    acls = index(entries)
    assert sorted(acls.of_pattern(TOPIC, pattern, name)) == sorted(
        (acl_id, each)
        for acl_id, each in acls.snapshot().items()
        if each[:3] == (TOPIC, name, pattern)
    )


def authorizer(*entries: AclBinding, super_users: Sequence[str] = ()) -> Authorizer:
    return Authorizer(index(entries), super_users)


def applies(each: AclBinding, principal: str, host: str) -> bool:
    return each.principal in (principal, "User:*") and each.host in (host, "10.0.0.0/24", "*")


def is_about(each: AclBinding, kind: ResourceType, name: str) -> bool:
    if each.resource_type is not kind:
        return False
    if each.pattern_type is PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in (name, "*")


def reference(
    entries: Iterable[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
) -> bool | None:
    """The rules, one after the other."""
    about = [each for each in entries if is_about(each, kind, name)]
    mine = [each for each in about if applies(each, principal, host)]
    implied = {
        DESCRIBE: {READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }.get(operation, set())
    if any(
        e.permission_type is DENY and e.operation in (operation, AclOperation.ALL) for e in mine
    ):
        return False
    if any(
        e.permission_type is ALLOW and e.operation in {operation, AclOperation.ALL, *implied}
        for e in mine
    ):
        return True
    return False if about else None


@given(
    st.lists(bindings, max_size=12),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ALL]),
    st.sampled_from(NAMES),
    st.lists(st.integers(0, 11), max_size=4),
)
def test_a_decision_is_that_of_the_rules_after_any_additions_and_removals(
    entries: list[AclBinding], operation: AclOperation, name: str, removed: list[int]
) -> None:
    acls = index(entries)
    for number in removed:
        acls.remove(UUID(int=number))
    left = [each for _, each in acls.snapshot().items()]
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        query = ("User:alice", HOST, operation, kind, name)
        assert acls.decide(*query) is reference(left, *query)


@given(st.lists(bindings, max_size=12))
def test_removed_entries_leave_no_decision_behind(entries: list[AclBinding]) -> None:
    acls = index(entries)
    for acl_id, _ in tuple(acls.snapshot().items()):
        acls.remove(acl_id)
    assert len(acls) == 0
    assert acls.decide("User:alice", HOST, READ, TOPIC, "abc") is None
    assert not acls.allows_some("User:alice", HOST, READ, TOPIC)


def some_reference(entries: Iterable[AclBinding], operation: AclOperation) -> bool:
    """Kafka's `Authorizer.authorizeByResourceType`, as it is written there."""
    mine = [
        each
        for each in entries
        if each.resource_type is TOPIC
        and applies(each, "User:alice", HOST)
        and each.operation in (operation, AclOperation.ALL)
    ]
    denied = {(e.pattern_type, e.resource_name) for e in mine if e.permission_type is DENY}
    allowed = {(e.pattern_type, e.resource_name) for e in mine if e.permission_type is ALLOW}
    if (LITERAL, "*") in denied:
        return False
    if (LITERAL, "*") in allowed:
        return True
    for pattern, name in allowed:
        if pattern is LITERAL and (LITERAL, name) in denied:
            continue
        prefixes = (name[:length] for length in range(1, len(name) + 1))
        if not any((PREFIXED, prefix) in denied for prefix in prefixes):
            return True
    return False


@given(st.lists(bindings, max_size=12), st.sampled_from((AclOperation.WRITE, READ, DESCRIBE)))
def test_allows_some_is_true_unless_a_denial_covers_every_allowed_name(
    entries: list[AclBinding], operation: AclOperation
) -> None:
    acls = index(entries)
    expected = some_reference([each for _, each in acls.snapshot().items()], operation)
    assert acls.allows_some("User:alice", HOST, operation, TOPIC) is expected


def test_a_super_user_may_do_what_is_denied() -> None:
    asked = authorizer(binding("*", AclOperation.ALL, DENY), super_users=["User:alice"])
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    assert asked.of(ALICE, HOST).allows_some(AclOperation.WRITE, TOPIC)
    assert not asked.of(KafkaPrincipal("User", "Alice"), HOST).allows(READ, TOPIC, "orders")


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_resources_without_an_entry_follow_allow_everyone_if_no_acl_found(
    allow_everyone: bool,
) -> None:
    acls = index([binding(principal="User:bob")])
    asked = Authorizer(acls, allow_everyone=allow_everyone).of(ALICE, HOST)
    assert asked.allows(READ, TOPIC, "other") is allow_everyone
    assert not asked.allows(READ, TOPIC, "orders")


def test_a_prefix_of_a_star_is_just_the_character() -> None:
    asked = authorizer(binding("*", pattern=PREFIXED)).of(ALICE, HOST)
    assert asked.allows(READ, TOPIC, "*orders")
    assert not asked.allows(READ, TOPIC, "orders")


def test_a_network_as_host_means_each_address_in_it() -> None:
    """HOST is 10.0.0.1."""
    for host in ("10.0.0.0/8", "10.9.9.9/8", "10.0.0.1/32", "0.0.0.0/0"):
        assert authorizer(binding(host=host)).of(ALICE, HOST).allows(READ, TOPIC, "orders")
    for host in ("10.0.0.0/32", "11.0.0.0/8", "::/0", "10.0.0.0", "10.0.0.0/33"):
        assert not authorizer(binding(host=host)).of(ALICE, HOST).allows(READ, TOPIC, "orders")
    asked = authorizer(binding(host="fd00::/8"))
    assert asked.of(ALICE, "fd12::1").allows(READ, TOPIC, "orders")
    assert not asked.of(ALICE, "fe80::1").allows(READ, TOPIC, "orders")
    assert not asked.of(ALICE, "unix").allows(READ, TOPIC, "orders")


def test_a_denial_from_a_network_beats_what_is_allowed_to_an_address() -> None:
    allowed, denied = binding(host=HOST), binding(permission=DENY, host="10.0.0.0/8")
    asked = authorizer(allowed, denied).of(ALICE, HOST)
    assert not asked.allows(READ, TOPIC, "orders")
    assert not asked.allows_some(READ, TOPIC)
    assert authorizer(allowed).of(ALICE, HOST).allows_some(READ, TOPIC)


def test_networks_come_and_go_with_their_entries() -> None:
    acls = index([binding("other", host="10.0.0.0/8"), binding(host="10.0.0.0/8")])
    asked = Authorizer(acls)
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    acls.remove(UUID(int=1))
    assert not asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "other")
    acls.remove(UUID(int=0))
    acls.add(UUID(int=2), binding(host="10.0.0.0/24"))
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8/8", " 10.0.0.0/8", "10.0.0/8",
        "256.0.0.0/8", "10.0.0.0/255.0.0.0", "host/8", "/8", "/", "*/8", "::/129", "fe80:::/10",
        "::ffff:10.0.0.1/128", "fe80::1%eth0/64",
    ],
)  # fmt: skip
def test_a_host_with_a_slash_must_be_a_network(host: str) -> None:
    with pytest.raises(ValueError):
        parse_network(host)


def test_a_host_without_a_slash_is_no_network() -> None:
    assert [parse_network(host) for host in ("10.0.0.1", "*", "::1", "nowhere")] == [None] * 4


def test_a_change_of_the_entries_ends_what_was_decided() -> None:
    acls = index([binding()])
    asked = Authorizer(acls)
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    acls.remove(UUID(int=0))
    assert not asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    acls.add(UUID(int=1), binding())
    assert asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")


def test_connections_by_the_unix_socket_pass_denials() -> None:
    asked = authorizer(binding("*", AclOperation.ALL, DENY))
    root = KafkaPrincipal("Local", "root")
    assert asked.of(root, "").allows(AclOperation.READ, ResourceType.TOPIC, "orders")


def test_all_operations_of_a_super_user_are_those_of_kafka() -> None:
    asked = authorizer(super_users=["User:alice"]).of(ALICE, HOST)
    assert asked.operations(ResourceType.TOPIC, "orders") == 3576
    assert asked.operations(ResourceType.GROUP, "billing") == 3400
    assert asked.operations(ResourceType.CLUSTER) == 8096


class CountingAcls(Acls):
    """Counts the decisions that are asked of it."""

    decisions = 0

    def decide(self, *query: object) -> bool | None:
        self.decisions += 1
        return super().decide(*query)  # type: ignore[arg-type]


def test_a_decision_is_made_once_until_too_many_are_remembered() -> None:
    acls = CountingAcls()
    asked = Authorizer(acls)
    for _ in range(3):
        asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    assert acls.decisions == 1
    for number in range(MAX_DECISIONS):
        asked.of(ALICE, HOST).allows(READ, TOPIC, str(number))
    asked.of(ALICE, HOST).allows(READ, TOPIC, "orders")
    assert acls.decisions == 1 + MAX_DECISIONS + 1


def test_the_decisions_of_many_clients_are_forgotten() -> None:
    acls = CountingAcls()
    asked = Authorizer(acls)
    for number in range(MAX_CLIENTS + 1):
        asked.of(KafkaPrincipal("User", str(number)), HOST).allows(READ, TOPIC, "orders")
    asked.of(KafkaPrincipal("User", "0"), HOST).allows(READ, TOPIC, "orders")
    assert acls.decisions == MAX_CLIENTS + 2


def test_a_decision_does_not_look_at_other_entries() -> None:
    """100,000 entries on one topic, on others and as prefixes do not add steps to a decision."""

    class Name(str):
        """A name that counts how often it is compared with others."""

        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str(self) == other

        __hash__ = str.__hash__

    entries = [binding(principal=f"User:{number}") for number in range(40_000)]
    entries += [binding(f"topic-{number}") for number in range(30_000)]
    entries += [binding(f"prefix-{number:05}", pattern=PREFIXED) for number in range(30_000)]
    acls = index(entries)
    assert acls.decide("User:alice", HOST, READ, TOPIC, Name("topic-29999"))
    assert Name.compared < 20


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclBindingFilter(), {"orders", "ord", "*", "other"}),
        (AclBindingFilter(resource_name="orders"), {"orders"}),
        (
            AclBindingFilter(resource_name="orders", pattern_type=PatternType.MATCH),
            {"orders", "ord", "*"},
        ),
        (AclBindingFilter(resource_name="ord", pattern_type=LITERAL), set()),
        (AclBindingFilter(resource_name="ord", pattern_type=PREFIXED), {"ord"}),
        (AclBindingFilter(resource_name="*", pattern_type=LITERAL), {"*"}),
        (AclBindingFilter(principal="User:*"), set()),
        (AclBindingFilter(operation=AclOperation.ALL), set()),
        (AclBindingFilter(host="*"), {"orders", "ord", "*", "other"}),
        (AclBindingFilter(resource_type=ResourceType.GROUP), set()),
        (AclBindingFilter(permission_type=DENY), set()),
    ],
)
def test_a_filter_finds_what_kafka_finds(wanted: AclBindingFilter, found: set[str]) -> None:
    entries = [
        binding("orders"),
        binding("ord", pattern=PREFIXED),
        binding("*"),
        binding("other"),
    ]
    assert {each.resource_name for each in entries if wanted.matches(each)} == found
