"""Every API asks whether the client may: closed by default, open by the operation of the table.

The responses are compared with Apache Kafka's by the conformance scenarios of the profile
"secured"; here it is that no API is left out, and that nothing happens on the way to a refusal.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.error_codes import errors_in
from kohort.security import KafkaPrincipal
from kohort.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.authorization import NEEDS, NOTHING
from kohort.server.logging import AuditLog
from server.handlers.bench import HandlerBench, batch_of
from server.identities import peer

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALICE = KafkaPrincipal("User", "alice")
TOPIC, GROUP, CLUSTER, ID = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)
MEMBER = {"group_id": "billing", "generation_id": 1, "member_id": "m"}
PARTITION = {"partition_index": 0}
RESOURCE = {"resource_type": 2, "resource_name": "orders"}
PRODUCER = {"transactional_id": "id", "producer_id": 5, "producer_epoch": 0}

REFUSED: dict[str, tuple[int, ErrorCode, dict[str, Any]]] = {
    "produce": (9, TOPIC, {"acks": -1, "transactional_id": None, "topic_data": [
        {"name": "orders", "partition_data": [{"index": 0, "records": batch_of(b"x")}]}]}),
    "fetch": (11, TOPIC, {"max_wait_ms": 0, "topics": [
        {"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1_000}]}]}),
    "list_offsets": (5, TOPIC, {"topics": [
        {"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
    "metadata": (9, TOPIC, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}),
    "offset_commit": (7, GROUP, {"group_id": "billing", "topics": [
        {"name": "orders", "partitions": [PARTITION]}]}),
    "offset_fetch": (7, GROUP, {"group_id": "billing", "topics": None}),
    "find_coordinator": (3, GROUP, {"key": "billing"}),
    "join_group": (5, GROUP, {"group_id": "billing"}),
    "heartbeat": (3, GROUP, MEMBER),
    "leave_group": (3, GROUP, {"group_id": "billing", "members": [{"member_id": "m"}]}),
    "sync_group": (4, GROUP, MEMBER),
    "describe_groups": (5, GROUP, {"groups": ["billing"]}),
    "create_topics": (5, TOPIC, {"timeout_ms": 1_000, "topics": [
        {"name": "new", "num_partitions": 1, "replication_factor": 1}]}),
    "delete_topics": (5, TOPIC, {"timeout_ms": 1_000, "topic_names": ["orders"]}),
    "delete_records": (1, TOPIC, {"topics": [{"name": "orders", "partitions": [PARTITION]}]}),
    "init_producer_id": (1, CLUSTER, {"transactional_id": None}),
    "offset_for_leader_epoch": (3, TOPIC, {"topics": [
        {"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]}),
    "add_partitions_to_txn": (4, CLUSTER, {"transactions": [
        {**PRODUCER, "topics": [{"name": "orders", "partitions": [0]}]}]}),
    "add_offsets_to_txn": (3, ID, {**PRODUCER, "group_id": "billing"}),
    "end_txn": (3, ID, {**PRODUCER, "committed": True}),
    "write_txn_markers": (1, CLUSTER, {"markers": [
        {"producer_id": 5, "producer_epoch": 0, "transaction_result": True, "topics": [
            {"name": "orders", "partition_indexes": [0]}]}]}),
    "txn_offset_commit": (3, ID, {**PRODUCER, "group_id": "billing", "topics": [
        {"name": "orders", "partitions": [PARTITION]}]}),
    "describe_acls": (3, CLUSTER, {
        "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}),
    "create_acls": (3, CLUSTER, {"creations": [
        {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3,
         "principal": "User:alice", "host": "*", "operation": 2, "permission_type": 3}]}),
    "delete_acls": (3, CLUSTER, {"filters": [
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1,
         "permission_type": 1}]}),
    "describe_configs": (4, TOPIC, {"resources": [RESOURCE]}),
    "alter_configs": (1, TOPIC, {"resources": [
        {**RESOURCE, "configs": [{"name": "retention.ms", "value": "1"}]}]}),
    "describe_log_dirs": (3, CLUSTER, {"topics": None}),
    "create_partitions": (3, TOPIC, {"timeout_ms": 1_000, "topics": [
        {"name": "orders", "count": 9}]}),
    "delete_groups": (3, GROUP, {"groups_names": ["billing"]}),
    "elect_leaders": (2, CLUSTER, {"topic_partitions": None}),
    "incremental_alter_configs": (1, TOPIC, {"resources": [
        {**RESOURCE, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}]}),
    "alter_partition_reassignments": (0, CLUSTER, {"topics": []}),
    "list_partition_reassignments": (0, CLUSTER, {}),
    "offset_delete": (0, GROUP, {"group_id": "billing", "topics": [
        {"name": "orders", "partitions": [PARTITION]}]}),
    "describe_client_quotas": (1, CLUSTER, {"components": []}),
    "alter_client_quotas": (1, CLUSTER, {"entries": [
        {"entity": [{"entity_type": "user", "entity_name": "alice"}],
         "ops": [{"key": "producer_byte_rate", "value": 1.0}]}]}),
    "describe_user_scram_credentials": (0, CLUSTER, {"users": None}),
    "alter_user_scram_credentials": (0, CLUSTER, {"deletions": [{"name": "bob", "mechanism": 1}]}),
    "describe_quorum": (2, CLUSTER, {"topics": []}),
    "update_features": (1, CLUSTER, {"feature_updates": []}),
    "describe_producers": (0, TOPIC, {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
    "describe_transactions": (0, ID, {"transactional_ids": ["id"]}),
    "consumer_group_heartbeat": (1, GROUP, {
        "group_id": "billing", "member_id": "m", "subscribed_topic_names": ["orders"]}),
    "consumer_group_describe": (1, GROUP, {"group_ids": ["billing"]}),
    "list_config_resources": (1, CLUSTER, {}),
    "describe_topic_partitions": (0, TOPIC, {
        "topics": [{"name": "orders"}], "response_partition_limit": 10}),
}  # fmt: skip
"""By API: a version, the error without any ACL, and a request."""
LISTS = frozenset({"list_groups", "list_transactions"})
"""APIs that leave out what the client may not see."""


@pytest.fixture
def secured() -> Iterator[HandlerBench]:
    """A server with a topic, an authorizer and no ACL, asked by somebody.

    It has no groups and no transactions: a handler that asked them would fail.
    """
    made = HandlerBench(authorizer_class_name=STANDARD, super_users="User:admin")
    made.controller.topics.create("orders", 3)
    made.peer = peer(ALICE)
    yield made
    made.directory.close()


def allow(
    bench: HandlerBench,
    operation: AclOperation,
    kind: ResourceType,
    name: str = CLUSTER_NAME,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:
    entry = AclBinding(kind, name, PatternType.LITERAL, str(ALICE), "*", operation, permission)
    bench.controller.writer.commit(*bench.controller.acls.create_acls([entry]))


def test_the_table_has_every_api_and_each_that_needs_something_is_tried() -> None:
    names = {api.name for api in APIS.values()}
    assert names <= NEEDS.keys()
    assert names - REFUSED.keys() - LISTS == {name for name in names if NEEDS[name] == NOTHING}


@pytest.mark.parametrize("api", REFUSED)
async def test_an_api_is_refused_without_an_acl_and_changes_nothing(
    secured: HandlerBench, api: str
) -> None:
    version, error, fields = REFUSED[api]
    before = secured.controller.writer.last_change
    response = await secured.ask(api, version, **fields)
    assert errors_in(response) == {error}
    assert secured.controller.writer.last_change == before
    log = secured.topics.log("orders", 0)
    assert log is not None
    assert log.end_offset == 0


async def test_a_denial_beats_what_is_allowed(secured: HandlerBench) -> None:
    allow(secured, AclOperation.ALL, ResourceType.TOPIC, "*")
    deny = AclPermissionType.DENY
    allow(secured, AclOperation.WRITE, ResourceType.TOPIC, "orders", deny)
    version, error, fields = REFUSED["produce"]
    assert errors_in(await secured.ask("produce", version, **fields)) == {error}


@pytest.mark.parametrize(
    ("api", "operation", "kind", "name"),
    [
        ("produce", AclOperation.WRITE, ResourceType.TOPIC, "orders"),
        ("fetch", AclOperation.READ, ResourceType.TOPIC, "orders"),
        ("list_offsets", AclOperation.DESCRIBE, ResourceType.TOPIC, "orders"),
        ("metadata", AclOperation.ALTER, ResourceType.TOPIC, "orders"),
        ("create_topics", AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME),
        ("delete_topics", AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME),
        ("delete_topics", AclOperation.DELETE, ResourceType.TOPIC, "orders"),
        ("delete_records", AclOperation.DELETE, ResourceType.TOPIC, "orders"),
        ("init_producer_id", AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME),
        ("init_producer_id", AclOperation.WRITE, ResourceType.TOPIC, "anything"),
        ("find_coordinator", AclOperation.READ, ResourceType.GROUP, "billing"),
        ("describe_configs", AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "orders"),
        ("incremental_alter_configs", AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "orders"),
        ("create_partitions", AclOperation.ALTER, ResourceType.TOPIC, "orders"),
        ("describe_acls", AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
        ("describe_quorum", AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),
    ],
)
async def test_an_api_is_open_to_whom_its_operation_is_allowed(
    secured: HandlerBench, api: str, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    allow(secured, operation, kind, name)
    version, error, fields = REFUSED[api]
    assert error not in errors_in(await secured.ask(api, version, **fields))


async def test_offsets_of_a_transaction_are_refused_by_the_name_behind_a_topic_id(
    secured: HandlerBench,
) -> None:
    """As by Apache Kafka 4.4, which refuses an unknown id as such."""
    allow(secured, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "id")
    allow(secured, AclOperation.READ, ResourceType.GROUP, "billing")
    orders = secured.topics.get("orders")
    assert orders is not None
    topics = [{"topic_id": each, "partitions": [PARTITION]} for each in (orders.id, UUID(int=8))]
    fields = {**PRODUCER, "group_id": "billing", "topics": topics}
    answer = await secured.ask("txn_offset_commit", 6, **fields)
    assert {each.topic_id: each.partitions[0].error_code for each in answer.topics} == {
        orders.id: TOPIC,
        UUID(int=8): ErrorCode.unknown_topic_id,
    }


async def test_a_topic_is_not_created_by_who_may_only_describe_it(secured: HandlerBench) -> None:
    allow(secured, AclOperation.DESCRIBE, ResourceType.TOPIC, "new")
    response = await secured.ask(
        "metadata", 9, topics=[{"name": "new"}], allow_auto_topic_creation=True
    )
    assert [topic.error_code for topic in response.topics] == [TOPIC]
    assert secured.topics.get("new") is None


async def test_all_topics_are_those_that_the_client_may_describe(secured: HandlerBench) -> None:
    secured.controller.topics.create("billing", 1)
    allow(secured, AclOperation.DESCRIBE, ResourceType.TOPIC, "billing")
    for _ in range(2):  # no response to somebody else is kept
        response = await secured.ask("metadata", 9, topics=None)
        assert [topic.name for topic in response.topics] == ["billing"]
        secured.peer = peer(KafkaPrincipal("User", "admin"))
        response = await secured.ask("metadata", 9, topics=None)
        assert [topic.name for topic in response.topics] == ["orders", "billing"]
        secured.peer = peer(ALICE)


@pytest.mark.parametrize("grows", [False, True])
async def test_a_fetch_session_stops_reading_a_topic_whose_permission_was_revoked(
    secured: HandlerBench, grows: bool
) -> None:
    """It is told at its next request, whether or not there is anything to read."""
    allow(secured, AclOperation.READ, ResourceType.TOPIC, "orders")
    version, error, fields = REFUSED["fetch"]
    opened = await secured.ask("fetch", version, **fields, session_id=0, session_epoch=0)
    assert errors_in(opened) == set()
    (acl,) = secured.controller.image.acls.snapshot()
    secured.controller.writer.commit(*secured.controller.acls.delete_acls([acl]))
    if grows:
        secured.fill("orders")
    again = {"session_id": opened.session_id, "session_epoch": 1, "max_wait_ms": 0}
    response = await secured.ask("fetch", version, **again, topics=[])
    assert errors_in(response) == {error}
    assert not response.responses[0].partitions[0].records


@pytest.mark.parametrize(
    ("names", "cursor", "told"),
    [
        ("abcd", None, {"b": 0, "d": 0, "a": TOPIC, "c": TOPIC}),
        ("abcd", ("b", 1), {"b": 0, "d": 0, "c": TOPIC}),
        ("abcd", ("c", 0), {"d": 0, "c": TOPIC}),
        ("c", ("c", 0), {"c": TOPIC}),
        ("bc", ("a", 0), dict.fromkeys("bc", ErrorCode.invalid_request)),
        ("", ("c", 0), {"d": 0, "orders": 0}),
    ],
)
async def test_a_page_may_begin_at_a_topic_that_is_denied(
    secured: HandlerBench, names: str, cursor: tuple[str, int] | None, told: dict[str, int]
) -> None:
    allow(secured, AclOperation.DESCRIBE, ResourceType.TOPIC, "*")
    for name in "abcd":
        secured.controller.topics.create(name, 2)
    for name in "ac":
        deny = AclPermissionType.DENY
        allow(secured, AclOperation.DESCRIBE, ResourceType.TOPIC, name, deny)
    response = await secured.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=10,
        cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    assert {topic.name: topic.error_code for topic in response.topics} == told


@pytest.mark.parametrize(
    ("key_type", "message"),
    [(0, "Group authorization failed."), (1, "Transactional Id authorization failed.")],
)
async def test_a_refused_search_for_a_coordinator_has_the_text_of_kafka(
    secured: HandlerBench, key_type: int, message: str
) -> None:
    response = await secured.ask("find_coordinator", 3, key="billing", key_type=key_type)
    assert (response.error_message, response.node_id, response.host) == (message, -1, "")


NEW = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout": 1_000}
MISSING = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
ORDERS = {"topic_names": ["orders"], "timeout": 1_000}


@pytest.mark.parametrize(
    ("api", "version", "fields", "allowed", "told"),
    [
        ("create_topics", 7, NEW, [], ["-create topic new"]),
        ("create_topics", 7, NEW, [(5, 2, "new")], ["+create topic new"]),
        ("create_topics", 7, NEW, [(5, 4, CLUSTER_NAME)], ["+create cluster kafka-cluster"]),
        ("delete_topics", 5, ORDERS, [], ["-delete topic orders"]),
        ("delete_topics", 5, ORDERS, [(6, 2, "orders")], ["+delete topic orders"]),
        ("delete_topics", 5, ORDERS, [(6, 4, CLUSTER_NAME)], ["+delete cluster kafka-cluster"]),
        ("metadata", 9, MISSING, [], ["-describe topic new"]),
        ("metadata", 9, MISSING, [(8, 2, "new")], ["-create topic new", "+describe topic new"]),
        ("metadata", 9, MISSING, [(8, 2, "new"), (5, 4, CLUSTER_NAME)],
         ["+create cluster kafka-cluster", "+describe topic new"]),
        ("write_txn_markers", 1, {"markers": []}, [], ["-alter cluster kafka-cluster"]),
        ("write_txn_markers", 1, {"markers": []}, [(9, 4, CLUSTER_NAME)],
         ["+cluster_action cluster kafka-cluster"]),
    ],
)  # fmt: skip
async def test_the_audit_log_has_the_decision_that_counted(
    secured: HandlerBench,
    tmp_path: Path,
    api: str,
    version: int,
    fields: dict[str, Any],
    allowed: list[tuple[int, int, str]],
    told: list[str],
) -> None:
    for operation, kind, name in allowed:
        allow(secured, AclOperation(operation), ResourceType(kind), name)
    secured.audit = AuditLog(str(tmp_path / "audit"), allowed_too=True)
    await secured.ask(api, version, **fields)
    secured.audit.close()
    lines = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert [
        f"{'-+'[line['allowed']]}{line['operation']} {line['resource']} {line['name']}"
        for line in lines
    ] == told
