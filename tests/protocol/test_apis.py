"""The table of APIs against kio's schemas, and against what Kafka 4.4 advertises."""

import pytest
from kio.schema.index import api_key_map

from kohort.protocol.apis import API_VERSIONS, APIS, BY_NAME
from kohort.protocol.message_classes import load_request_schema, load_response_schema

KAFKA_4_4 = {
    "produce": (0, 13), "fetch": (4, 18), "list_offsets": (1, 11), "metadata": (0, 13),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10), "find_coordinator": (0, 6), "join_group": (0, 9), "heartbeat": (0, 4),
    "leave_group": (0, 5), "sync_group": (0, 5), "describe_groups": (0, 6), "list_groups": (0, 5),
    "api_versions": (0, 5), "create_topics": (2, 7), "delete_topics": (1, 6), "delete_records": (0,
    2),
    "init_producer_id": (0, 5), "offset_for_leader_epoch": (2, 4), "describe_configs": (1, 4),
    "create_partitions": (0, 3), "delete_groups": (0, 3), "incremental_alter_configs": (0, 1),
    "list_partition_reassignments": (0, 0), "offset_delete": (0, 0), "describe_cluster": (0, 2),
    "describe_topic_partitions": (0, 0), "describe_acls": (1, 3), "create_acls": (1, 3),
    "delete_acls": (1, 3), "describe_log_dirs": (1, 5),
    "elect_leaders": (0, 2), "alter_partition_reassignments": (0, 1),
    "alter_client_quotas": (0, 1),
    "sasl_handshake": (0, 1), "sasl_authenticate": (0, 2),
    "alter_user_scram_credentials": (0, 0), "describe_client_quotas": (0, 1),
    "describe_user_scram_credentials": (0, 0),
    "describe_quorum": (0, 2), "update_features": (0, 2),
    "alter_configs": (0, 2), "list_config_resources": (0, 1),
    "describe_producers": (0, 0), "list_transactions": (0, 2), "describe_transactions": (0, 0),
    "add_partitions_to_txn": (0, 5), "add_offsets_to_txn": (0, 4), "end_txn": (0, 5),
    "write_txn_markers": (1, 2), "txn_offset_commit": (0, 6),
    "consumer_group_heartbeat": (0, 1), "consumer_group_describe": (0, 1),
}  # fmt: skip


def test_the_advertised_apis_are_those_of_kafka() -> None:
    assert {api.name: (api.advertised_from, api.max_version) for api in APIS.values()} == KAFKA_4_4


def test_only_produce_is_advertised_below_what_is_served() -> None:
    assert [api.name for api in APIS.values() if api.advertised_from != api.min_version] == [
        "produce"
    ]
    assert not BY_NAME["produce"].serves(2)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_names_and_encodings_are_those_of_the_schemas(api) -> None:
    assert api_key_map[api.key] == api.name
    for version in range(api.min_version, api.max_version + 1):
        for load in (load_request_schema, load_response_schema):
            assert load(api.key, version).__flexible__ is api.flexible(version)


def test_versions_at_the_edges() -> None:
    heartbeat = BY_NAME["heartbeat"]
    assert [heartbeat.serves(version) for version in (-1, 0, 4, 5)] == [False, True, True, False]
    assert APIS[API_VERSIONS].name == "api_versions"
