"""Refusals are valid responses of every version, and name the error for each entry of a request."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode, request
from kohort.testing.embedded.error_responses import REFUSABLE, error_response

ERROR = ErrorCode.coordinator_not_available
PARTITION = {"partition_index": 3}
TOPIC = {"name": "orders", "partitions": [PARTITION]}
REQUESTS: dict[str, dict[str, Any]] = {
    "produce": {"topic_data": [{"name": "orders", "partition_data": [{"index": 3}]}]},
    "list_offsets": {"topics": [TOPIC]},
    "offset_commit": {"topics": [TOPIC]},
    "txn_offset_commit": {"topics": [TOPIC]},
    "create_topics": {"topics": [{"name": "orders"}]},
}
SHAPES = [
    (name, version)
    for name in sorted(REFUSABLE)
    for version in range(BY_NAME[name].min_version, BY_NAME[name].max_version + 1)
]


def made(name: str, version: int) -> Any:
    fields = REQUESTS.get(name, {})
    if name == "offset_fetch":
        topics = [{"name": "orders", "partition_indexes": [3]}]
        fields = {"groups": [{"group_id": "billing"}]} if version >= 8 else {"topics": topics}
    elif name == "find_coordinator" and version >= 4:
        fields = {"coordinator_keys": ["billing"]}
    elif name == "add_partitions_to_txn":
        topics = [{"name": "orders", "partitions": [3]}]
        fields = (
            {"v3_and_below_topics": topics}
            if version < 4
            else {"transactions": [{"transactional_id": "t", "topics": topics}]}
        )
    return request(BY_NAME[name].key, version, **fields)


@pytest.mark.parametrize(("name", "version"), SHAPES)
def test_a_refusal_is_a_response_with_that_error_alone(name: str, version: int) -> None:
    refused = error_response(BY_NAME[name].key, version, made(name, version), ERROR)
    assert encode(refused)
    assert errors_in(refused) == {ERROR}


def test_a_refusal_names_the_partitions_of_the_request() -> None:
    refused = error_response(BY_NAME["offset_commit"].key, 8, made("offset_commit", 8), ERROR)
    ((topic,),) = (refused.topics,)
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.error_code) == ("orders", 3, ERROR)


def test_a_refusal_names_the_keys_of_the_request() -> None:
    refused = error_response(BY_NAME["find_coordinator"].key, 4, made("find_coordinator", 4), ERROR)
    (coordinator,) = refused.coordinators
    assert (coordinator.key, coordinator.error_code) == ("billing", ERROR)
