"""Every API about named resources, asked by a user who may do nothing, describe, or do everything.

The requests with many entries name a topic that the user may use, one that it may not, and one
that does not exist; those about a group or a transactional id are made for one that the user may
use and for one that it may not.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kohort_conformance.acls import ALL, DESCRIBE, GROUP, TOPIC, TRANSACTIONAL_ID, entry, grant
from kohort_conformance.batches import TRANSACTIONAL, RecordBatch
from kohort_conformance.members import protocols
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.stage import NO_TOPIC, Stage, topic_id

USER: Final = "user0"
GOOD: Final = RecordBatch().encode()
TOPICS, GROUPS, CONFIG_GROUP = 2, 3, 32


@dataclass
class Scene:
    """The names that the requests of one scenario use."""

    stage: Stage
    ids: dict[str, uuid.UUID]

    def topic(self, name: str) -> str:
        return self.stage.topic_named(name)

    @property
    def topics(self) -> list[str]:
        return [self.topic(name) for name in ("topic", "secret", "missing")]

    @property
    def topic_ids(self) -> list[uuid.UUID]:
        return [*self.ids.values(), NO_TOPIC]

    @property
    def groups(self) -> list[str]:
        return [self.stage.group_named(name) for name in ("group", "other")]

    @property
    def transactional_ids(self) -> list[str]:
        return [f"{self.stage.name}-{name}{self.stage.suffix}" for name in ("id", "other")]


Fields: TypeAlias = dict[str, Any]
Requests: TypeAlias = Callable[[Scene], Iterable[Fields]]
"""The requests that are made, one after the other."""


def each(name: str, values: Callable[[str], Fields]) -> Requests:
    """A request for each group, topic or transactional id."""
    return lambda scene: [values(one) for one in getattr(scene, name)]


def once(values: Callable[[Scene], Fields]) -> Requests:
    return lambda scene: [values(scene)]


def _produce(scene: Scene, **values: Any) -> Fields:
    data = [{"index": 0, "records": GOOD}]
    topics = [{"name": one, "partition_data": data} for one in scene.topics]
    return {"acks": -1, "timeout": 5_000, "topic_data": topics, **values}


def _produce_by_id(scene: Scene) -> Fields:
    data = [{"index": 0, "records": GOOD}]
    topics = [{"topic_id": one, "partition_data": data} for one in scene.topic_ids]
    return {"acks": -1, "timeout": 5_000, "topic_data": topics}


def _transactional(scene: Scene) -> Iterable[Fields]:
    batch = RecordBatch(attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0)
    data = [{"index": 0, "records": batch.encode()}]
    topics = [{"name": one, "partition_data": data} for one in scene.topics[1:]]
    return [
        {"acks": -1, "timeout": 5_000, "topic_data": topics, "transactional_id": one}
        for one in scene.transactional_ids
    ]


def _fetch(key: str, names: Iterable[Any]) -> Fields:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    return {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{key: one, "partitions": partitions} for one in names],
    }


def _list_offsets(scene: Scene) -> Fields:
    partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    topics = [{"name": one, "partitions": partitions} for one in scene.topics]
    return {"replica_id": -1, "topics": topics}


def _epochs(scene: Scene) -> Fields:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    topics = [{"topic": one, "partitions": partitions} for one in scene.topics]
    return {"replica_id": -1, "topics": topics}


def _creation(name: str) -> Fields:
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


def _join(group: str) -> Fields:
    return {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    }


def _commit(scene: Scene, group: str, **values: Any) -> Fields:
    partitions = [{"partition_index": 0, "committed_offset": 3}]
    topics = [{"name": one, "partitions": partitions} for one in scene.topics]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics, **values}


def _commit_by_id(scene: Scene, **values: Any) -> Iterable[Fields]:
    partitions = [{"partition_index": 0, "committed_offset": 3}]
    topics = [{"topic_id": one, "partitions": partitions} for one in scene.topic_ids]
    return [
        {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics, **values}
        for group in scene.groups
    ]


def _offset_fetch(scene: Scene) -> Iterable[Fields]:
    topics = [{"name": one, "partition_indexes": [0]} for one in scene.topics]
    for group in scene.groups:
        yield {"group_id": group, "topics": topics}
        yield {"group_id": group, "topics": None}


def _offset_fetch_many(scene: Scene, topics: list[Fields]) -> Fields:
    return {
        "groups": [
            {"group_id": group, "member_epoch": -1, "topics": asked}
            for group in scene.groups
            for asked in (topics, None)
        ]
    }


def _txn_commit(scene: Scene) -> Iterable[Fields]:
    for group in scene.groups:
        for transactional_id in scene.transactional_ids:
            commit = _commit(scene, group, transactional_id=transactional_id, producer_id=5)
            del commit["generation_id_or_member_epoch"]
            yield {**commit, "producer_epoch": 0, "generation_id": -1}


def _txn_commit_by_id(scene: Scene) -> Iterable[Fields]:
    for transactional_id in scene.transactional_ids:
        producer = {"transactional_id": transactional_id, "producer_id": 5, "producer_epoch": 0}
        yield from _commit_by_id(scene, **producer)


def _add_partitions(scene: Scene) -> Iterable[Fields]:
    for transactional_id in scene.transactional_ids:
        for topics in (scene.topics, scene.topics[:1]):
            yield {
                "v3_and_below_transactional_id": transactional_id,
                "v3_and_below_producer_id": 5,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": [{"name": one, "partitions": [0]} for one in topics],
            }


def _add_partitions_of_brokers(scene: Scene) -> Fields:
    topics = [{"name": one, "partitions": [0]} for one in scene.topics]
    return {
        "transactions": [
            {
                "transactional_id": one,
                "producer_id": 5,
                "producer_epoch": 0,
                "verify_only": True,
                "topics": topics,
            }
            for one in scene.transactional_ids
        ]
    }


def _heartbeat(scene: Scene) -> Iterable[Fields]:
    topic, secret, missing = scene.topics
    for group in scene.groups:
        for number, names in enumerate(([topic], [topic, secret], [missing])):
            yield {
                "group_id": group,
                "member_id": f"member-{number}",
                "member_epoch": 0,
                "rebalance_timeout": 60_000,
                "subscribed_topic_names": names,
                "topic_partitions": [],
            }


def _resources(scene: Scene) -> list[tuple[int, str]]:
    return [
        *((TOPICS, one) for one in scene.topics),
        *((CONFIG_GROUP, one) for one in scene.groups),
    ]


def _describe_configs(scene: Scene) -> Fields:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
            for kind, name in _resources(scene)
        ]
    }


def _alter_configs(scene: Scene, **operation: Any) -> Fields:
    names = {TOPICS: "retention.ms", CONFIG_GROUP: "consumer.session.timeout.ms"}
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": names[kind], "value": "50000", **operation}],
            }
            for kind, name in _resources(scene)
        ]
    }


MATRIX: Final[dict[str, tuple[str, tuple[int, ...], Requests]]] = {
    "produce": ("Produce", (3, 12), once(_produce)),
    "produce_by_id": ("Produce", (13,), once(_produce_by_id)),
    "produce_transactional": ("Produce", (3, 11), _transactional),
    "fetch": ("Fetch", (4, 12), once(lambda scene: _fetch("topic", scene.topics))),
    "fetch_by_id": (
        "Fetch", (13, 17), once(lambda scene: _fetch("topic_id", scene.topic_ids)),
    ),
    "list_offsets": ("ListOffsets", (1, 11), once(_list_offsets)),
    "offset_for_leader_epoch": ("OffsetForLeaderEpoch", (2, 4), once(_epochs)),
    "delete_records": (
        "DeleteRecords",
        (0, 2),
        once(
            lambda scene: {
                "timeout": 5_000,
                "topics": [
                    {"name": one, "partitions": [{"partition_index": 0, "offset": 0}]}
                    for one in scene.topics
                ],
            }
        ),
    ),
    "describe_producers": (
        "DescribeProducers",
        (0,),
        once(
            lambda scene: {
                "topics": [{"name": one, "partition_indexes": [0]} for one in scene.topics]
            }
        ),
    ),
    "metadata": (
        "Metadata",
        (0, 4, 9, 11, 13),
        once(
            lambda scene: {
                "topics": [{"name": one} for one in scene.topics],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": True,
            }
        ),
    ),
    "metadata_by_id": (
        "Metadata",
        (12, 13),
        once(
            lambda scene: {
                "topics": [{"topic_id": one, "name": None} for one in scene.topic_ids],
                "include_topic_authorized_operations": True,
            }
        ),
    ),
    "describe_topic_partitions": (
        "DescribeTopicPartitions",
        (0,),
        once(
            lambda scene: {
                "topics": [{"name": one} for one in scene.topics],
                "response_partition_limit": 100,
            }
        ),
    ),
    "create_topics": (
        "CreateTopics",
        (4, 7),
        once(
            lambda scene: {
                "topics": [_creation(one) for one in scene.topics],
                "timeout": 5_000,
                "validate_only": True,
            }
        ),
    ),
    "delete_topics": (
        "DeleteTopics",
        (1, 5),
        once(lambda scene: {"topic_names": scene.topics[1:], "timeout": 5_000}),
    ),
    "delete_topics_by_name": (
        "DeleteTopics",
        (6,),
        once(
            lambda scene: {
                "topics": [{"name": one, "topic_id": None} for one in scene.topics[1:]],
                "timeout": 5_000,
            }
        ),
    ),
    "delete_topics_by_id": (
        "DeleteTopics",
        (6,),
        once(
            lambda scene: {
                "topics": [{"name": None, "topic_id": one} for one in scene.topic_ids[1:]],
                "timeout": 5_000,
            }
        ),
    ),
    "delete_topic_by_id": (
        "DeleteTopics",
        (6,),
        once(
            lambda scene: {
                "topics": [{"name": None, "topic_id": one} for one in scene.topic_ids[:1]],
                "timeout": 5_000,
            }
        ),
    ),
    "create_partitions": (
        "CreatePartitions",
        (0, 3),
        once(
            lambda scene: {
                "topics": [{"name": one, "count": 2} for one in scene.topics],
                "timeout": 5_000,
                "validate_only": True,
            }
        ),
    ),
    "find_coordinator": ("FindCoordinator", (0, 3), each("groups", lambda one: {"key": one})),
    "find_transactions": (
        "FindCoordinator",
        (1, 3),
        each("transactional_ids", lambda one: {"key": one, "key_type": 1}),
    ),
    "find_coordinators": (
        "FindCoordinator", (4, 6), once(lambda scene: {"coordinator_keys": scene.groups}),
    ),
    "find_share_coordinator": (
        "FindCoordinator",
        (6,),
        once(
            lambda scene: {
                "coordinator_keys": [f"{scene.groups[0]}:AAAAAAAAAAAAAAAAAAAAAA:0"],
                "key_type": 2,
            }
        ),
    ),
    "join_group": ("JoinGroup", (4, 9), each("groups", _join)),
    "sync_group": (
        "SyncGroup",
        (0, 5),
        each("groups", lambda one: {"group_id": one, "generation_id": 1, "member_id": "nobody"}),
    ),
    "heartbeat": (
        "Heartbeat",
        (0, 4),
        each("groups", lambda one: {"group_id": one, "generation_id": 1, "member_id": "nobody"}),
    ),
    "leave_group": (
        "LeaveGroup", (0, 2), each("groups", lambda one: {"group_id": one, "member_id": "nobody"}),
    ),
    "leave_group_members": (
        "LeaveGroup",
        (3, 5),
        each("groups", lambda one: {"group_id": one, "members": [{"member_id": "nobody"}]}),
    ),
    "consumer_group_heartbeat": ("ConsumerGroupHeartbeat", (0, 1), _heartbeat),
    "offset_commit": (
        "OffsetCommit",
        (2, 9),
        lambda scene: [_commit(scene, group) for group in scene.groups],
    ),
    "offset_commit_by_id": ("OffsetCommit", (10,), _commit_by_id),
    "offset_fetch": ("OffsetFetch", (2, 7), _offset_fetch),
    "offset_fetch_many": (
        "OffsetFetch",
        (8, 9),
        once(
            lambda scene: _offset_fetch_many(
                scene, [{"name": one, "partition_indexes": [0]} for one in scene.topics]
            )
        ),
    ),
    "offset_fetch_by_id": (
        "OffsetFetch",
        (10,),
        once(
            lambda scene: _offset_fetch_many(
                scene, [{"topic_id": one, "partition_indexes": [0]} for one in scene.topic_ids]
            )
        ),
    ),
    "offset_delete": (
        "OffsetDelete",
        (0,),
        lambda scene: [
            {
                "group_id": group,
                "topics": [
                    {"name": one, "partitions": [{"partition_index": 0}]} for one in scene.topics
                ],
            }
            for group in scene.groups
        ],
    ),
    "describe_groups": (
        "DescribeGroups",
        (0, 6),
        once(
            lambda scene: {"groups": scene.groups, "include_authorized_operations": True}
        ),
    ),
    "consumer_group_describe": (
        "ConsumerGroupDescribe",
        (0, 1),
        once(
            lambda scene: {"group_ids": scene.groups, "include_authorized_operations": True}
        ),
    ),
    "delete_groups": (
        "DeleteGroups", (0, 2, 3), once(lambda scene: {"groups_names": scene.groups}),
    ),
    "init_producer_id": (
        "InitProducerId",
        (0, 5),
        each(
            "transactional_ids",
            lambda one: {
                "transactional_id": one,
                "transaction_timeout": 60_000,
                "producer_id": -1,
                "producer_epoch": -1,
            },
        ),
    ),
    "add_partitions_to_txn": ("AddPartitionsToTxn", (0, 3), _add_partitions),
    "add_partitions_of_brokers": (
        "AddPartitionsToTxn", (4, 5), once(_add_partitions_of_brokers),
    ),
    "add_offsets_to_txn": (
        "AddOffsetsToTxn",
        (0, 4),
        lambda scene: [
            {"transactional_id": one, "producer_id": 5, "producer_epoch": 0, "group_id": group}
            for one in scene.transactional_ids
            for group in scene.groups
        ],
    ),
    "txn_offset_commit": ("TxnOffsetCommit", (0, 3, 5), _txn_commit),
    "txn_offset_commit_by_id": ("TxnOffsetCommit", (6,), _txn_commit_by_id),
    "end_txn": (
        "EndTxn",
        (0, 5),
        each(
            "transactional_ids",
            lambda one: {
                "transactional_id": one,
                "producer_id": 5,
                "producer_epoch": 0,
                "committed": True,
            },
        ),
    ),
    "describe_transactions": (
        "DescribeTransactions",
        (0,),
        once(lambda scene: {"transactional_ids": [*scene.transactional_ids, ""]}),
    ),
    "describe_configs": ("DescribeConfigs", (1, 4), once(_describe_configs)),
    "alter_configs": ("AlterConfigs", (0, 2), once(_alter_configs)),
    "incremental_alter_configs": (
        "IncrementalAlterConfigs",
        (0, 1),
        once(lambda scene: _alter_configs(scene, config_operation=0)),
    ),
}  # fmt: skip
"""By scenario: an API, versions of it, and the requests."""

HASHED: Final = frozenset({"topics", "results", "responses", "results_by_topic_v3_and_below"})

GRANTS: Final[dict[str, tuple[int, ...]]] = {
    "nothing": (),
    "to_describe": (DESCRIBE,),
    "everything": (ALL,),
}
"""What the user may do with its topic, its group and its transactional id."""


async def _play(
    stage: Stage, api: str, versions: Iterable[int], requests: Requests, operations: Any
) -> None:
    names = [await stage.create_topic(name) for name in ("topic", "secret")]
    admin = await stage.client("admin")
    scene = Scene(stage, {name: await topic_id(admin, name) for name in names})
    resources = (
        (TOPIC, scene.topics[0]),
        (GROUP, scene.groups[0]),
        (TRANSACTIONAL_ID, scene.transactional_ids[0]),
    )
    for group in scene.groups:
        await admin.quiet("OffsetCommit", 9, **{**_commit(scene, group), "topics": _stored(names)})
    await grant(
        stage, *(entry(USER, operation, *each) for operation in operations for each in resources)
    )
    client = await stage.client("a", USER)
    for version in versions:
        for values in requests(scene):
            answer = await client.quiet(api, version, **values)
            stage.note(f"{api} v{version}", in_order(answer))


def in_order(answer: Fields) -> Fields:
    """The answer with its lists of named entries sorted: Kafka's are in the order of a hash map."""
    return {
        name: sorted(value, key=_name) if isinstance(value, list) and name in HASHED else value
        for name, value in answer.items()
    }


def _name(one: Fields) -> tuple[str, ...]:
    return tuple(str(one.get(each, "")) for each in ("error_code", "resource_name", "name"))


def _stored(names: Iterable[str]) -> list[Fields]:
    partitions = [{"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1}]
    return [{"name": one, "partitions": partitions} for one in names]


def _register(name: str, api: str, versions: tuple[int, ...], requests: Requests) -> None:
    for title, operations in GRANTS.items():

        async def play(stage: Stage, operations: tuple[int, ...] = operations) -> None:
            await _play(stage, api, versions, requests, operations)

        play.__name__ = f"{name}_{title}"
        play.__doc__ = f"{api} by a user who may do {title.replace('_', ' ')}."
        play.__module__ = __name__
        scenario(profile=SECURED)(play)


for each_name, each_request in MATRIX.items():
    _register(each_name, *each_request)
