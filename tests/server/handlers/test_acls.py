"""CreateAcls, DescribeAcls and DeleteAcls change and show the entries that decide."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kohort.errors import ErrorCode
from kohort.security import KafkaPrincipal, acl_search
from kohort.security.acls import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.metadata import METADATA
from server.handlers.bench import HandlerBench, HungUpError
from server.identities import peer
from turns import BOUND_MS, longest_turn_ms

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ADMIN, ALICE = KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "alice")


@pytest.fixture
def secured() -> Iterator[HandlerBench]:
    """A server with an authorizer, asked by its super user."""
    made = HandlerBench(authorizer_class_name=STANDARD, super_users="User:admin")
    made.peer = peer(ADMIN)
    yield made
    made.directory.close()


def entry(name: str = "orders", **changes: Any) -> dict[str, Any]:
    return {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    } | changes


def wanted(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    } | changes


async def create(bench: HandlerBench, *entries: dict[str, Any]) -> list[ErrorCode]:
    response = await bench.ask("create_acls", 3, creations=entries)
    return [result.error_code for result in response.results]


async def names(bench: HandlerBench, **changes: Any) -> list[str]:
    response = await bench.ask("describe_acls", 3, **wanted(**changes))
    assert response.error_code is ErrorCode.none
    return [resource.resource_name for resource in response.resources]


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("create_acls", {"creations": [entry(), entry("")]}),
        ("describe_acls", wanted()),
        ("delete_acls", {"filters": [wanted(), wanted()]}),
    ],
)
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, ErrorCode.security_disabled),
        ({"authorizer_class_name": STANDARD}, ErrorCode.cluster_authorization_failed),
    ],
)
async def test_acl_requests_need_an_authorizer_and_its_permission(
    api: str, fields: dict[str, Any], settings: dict[str, str], error: ErrorCode
) -> None:
    bench = HandlerBench(**settings)
    response = await bench.ask(api, 3, **fields)
    rows = (
        getattr(response, "results", None)
        or getattr(response, "filter_results", None)
        or [response]
    )
    assert [row.error_code for row in rows] == [error] * (1 if api == "describe_acls" else 2)
    assert not len(bench.controller.image.acls)


async def test_an_entry_that_is_made_is_shown_and_decides(secured: HandlerBench) -> None:
    assert await create(secured, entry(), entry(operation=AclOperation.WRITE)) == [0, 0]
    response = await secured.ask("describe_acls", 3, **wanted())
    (resource,) = response.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
    )
    assert [acl.operation for acl in resource.acls] == [AclOperation.READ, AclOperation.WRITE]


async def test_entries_are_there_after_a_restart_until_they_are_deleted(
    secured: HandlerBench,
) -> None:
    await create(secured, entry("orders"), entry("billing"))
    secured.restart()
    assert await names(secured) == ["orders", "billing"]
    await secured.ask("delete_acls", 3, filters=[wanted(resource_name_filter="orders")])
    secured.restart()
    assert await names(secured) == ["billing"]


async def test_an_entry_that_exists_is_no_error_and_not_made_again(secured: HandlerBench) -> None:
    assert await create(secured, entry(), entry()) == [0, 0]
    assert await create(secured, entry()) == [0]
    assert len(secured.controller.image.acls) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "alice"}, "Could not parse principal"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource"),
        ({"resource_type": 4, "resource_name": ""}, "The only valid name for the CLUSTER"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"host": ""}, "Invalid empty host"),
        ({"host": "10.0.0.0/33"}, "Invalid CIDR notation"),
        ({"host": "nowhere/8"}, "Invalid CIDR notation"),
        ({"resource_name": "x" * 32_760}, "at most 32767 characters"),
    ],
)
async def test_an_invalid_entry_is_refused_and_the_others_are_made(
    secured: HandlerBench, changes: dict[str, Any], message: str
) -> None:
    response = await secured.ask("create_acls", 3, creations=[entry(), entry(**changes)])
    assert [result.error_code for result in response.results] == [0, ErrorCode.invalid_request]
    assert message in response.results[1].error_message
    assert len(secured.controller.image.acls) == 1


@pytest.mark.parametrize(
    "changes",
    [{"principal": ":x"}, {"principal": "User:"}, {"host": "nowhere"}, {"host": "fd00::/8"},
     {"resource_type": 3, "operation": AclOperation.WRITE}, {"resource_type": 7}],
)  # fmt: skip
async def test_an_entry_that_never_applies_is_made(
    secured: HandlerBench, changes: dict[str, Any]
) -> None:
    assert await create(secured, entry(**changes)) == [0]


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("create_acls", {"creations": [entry(operation=0)]}),
        ("describe_acls", wanted(operation=0)),
        ("delete_acls", {"filters": [wanted(), wanted(pattern_type_filter=0)]}),
    ],
)
async def test_an_unknown_code_closes_the_connection(
    secured: HandlerBench, api: str, fields: dict[str, Any]
) -> None:
    await create(secured, entry())
    with pytest.raises(HungUpError):
        await secured.ask(api, 3, **fields)
    assert len(secured.controller.image.acls) == 1


async def test_filters_tell_what_they_matched_even_if_another_did_before(
    secured: HandlerBench,
) -> None:
    await create(secured, entry("a"), entry("b"))
    response = await secured.ask(
        "delete_acls",
        3,
        filters=[
            wanted(resource_name_filter="a"),
            wanted(),
            wanted(resource_name_filter="c"),
            wanted(operation=99),
            wanted(resource_type_filter=99),
        ],
    )
    results = response.filter_results
    assert [[acl.resource_name for acl in one.matching_acls] for one in results] == [
        ["a"], ["a", "b"], [], [], [],
    ]  # fmt: skip
    assert [result.error_code for result in results] == [0, 0, 0, 42, 42]
    assert not len(secured.controller.image.acls)


async def test_many_entries_are_made_and_deleted_in_batches(secured: HandlerBench) -> None:
    many = [entry(f"topic-{number}") for number in range(1_500)]
    assert set(await create(secured, *many)) == {0}
    assert len(secured.controller.image.acls) == 1_500
    await secured.ask("delete_acls", 3, filters=[wanted()])
    secured.restart()
    assert not len(secured.controller.image.acls)


async def test_entries_with_long_names_are_made_together(secured: HandlerBench) -> None:
    name = "\N{GRINNING FACE}" * 8_000
    many = [entry(name, principal=f"User:{number}") for number in range(20)]
    assert set(await create(secured, *many)) == {0}
    secured.restart()
    assert len(secured.controller.image.acls) == 20


async def test_a_user_with_alter_on_the_cluster_may_change_acls(secured: HandlerBench) -> None:
    for_all = {"resource_type": 4, "resource_name": "kafka-cluster", "principal": "User:*"}
    await create(secured, entry(**for_all, operation=AclOperation.ALTER))
    secured.peer = peer(ALICE)
    assert await names(secured) == ["kafka-cluster"]
    assert await create(secured, entry()) == [0]


async def test_filters_that_match_too_many_entries_together_delete_nothing(
    secured: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_search, "MAX_MATCHES", 0)
    await create(secured, entry())
    response = await secured.ask(
        "delete_acls", 3, filters=[wanted(), wanted(), wanted(operation=99)]
    )
    assert [result.error_message for result in response.filter_results] == [
        "The filters match too many ACLs together.",
        "The filters match too many ACLs together.",
        "Unknown entryFilter.",
    ]
    assert len(secured.controller.image.acls) == 1


async def test_entries_that_a_failing_disk_keeps_are_told_one_by_one(secured: HandlerBench) -> None:
    await create(secured, *(entry(f"topic-{number}") for number in range(600)))
    secured.controller.writer.on_acls_changed.append(
        lambda: secured.directory.fail("append", METADATA)
    )
    response = await secured.ask("delete_acls", 3, filters=[wanted()])
    (result,) = response.filter_results
    assert result.error_code is ErrorCode.none
    kept = [acl.resource_name for acl in result.matching_acls if acl.error_code]
    assert {acl.error_code for acl in result.matching_acls} == {0, ErrorCode.kafka_storage_error}
    secured.directory.heal()
    secured.restart()
    assert await names(secured) == kept
    assert len(kept) == 100


@pytest.mark.long
async def test_a_hundred_thousand_entries_are_shown_and_deleted_in_short_turns(
    secured: HandlerBench,
) -> None:
    for number in range(100_000):
        binding = AclBinding(
            ResourceType.TOPIC,
            f"topic-{number}",
            PatternType.LITERAL,
            f"User:{number % 5_000}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        secured.controller.image.acls.add(UUID(int=number), binding)
    for api, fields in {
        "describe_acls": wanted(),
        "delete_acls": {"filters": [wanted(principal_filter="User:x"), wanted()]},
    }.items():
        longest, _ = await longest_turn_ms(secured.handling(api, 3, **fields))
        print(f"{api}: {longest:.0f} ms in one turn")
        assert longest < BOUND_MS
