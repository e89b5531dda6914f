"""APIs about the cluster, asked by a user before and after it is allowed their operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from kohort_conformance.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
    entry,
    everything,
    exactly,
    grant,
)
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.stage import Stage

Fields: TypeAlias = dict[str, Any]
Values: TypeAlias = Callable[[Stage], Fields]
NOBODY: Final = "nobody"
BROKER, METRICS = 4, 16


def _acl(stage: Stage, operation: int) -> Fields:
    return entry("user1", operation, 2, stage.topic)


def _markers(stage: Stage) -> Fields:
    topics = [{"name": stage.topic, "partition_indexes": [0]}]
    marker = {
        "producer_id": 5,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": topics,
        "coordinator_epoch": 0,
        "transaction_version": 1,
    }
    return {"markers": [marker]}


def _verification(stage: Stage) -> Fields:
    transaction = {
        "transactional_id": stage.topic_named("id"),
        "producer_id": 5,
        "producer_epoch": 0,
        "verify_only": True,
        "topics": [{"name": stage.topic, "partitions": [0]}],
    }
    return {"transactions": [transaction]}


def _leader_epochs(stage: Stage) -> Fields:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": stage.topic, "partitions": [partition]}]}


def _first_offsets(stage: Stage) -> Fields:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    topics = [{"name": stage.topic, "partitions": [partition]}]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics}


def _reassignments(stage: Stage) -> Fields:
    partitions = [{"partition_index": 0, "replicas": [77]}, {"partition_index": 1}]
    return {"timeout": 5_000, "topics": [{"name": stage.topic, "partitions": partitions}]}


def _broker_configs(_: Stage) -> Fields:
    return {
        "resources": [
            {"resource_type": BROKER, "resource_name": "", "configuration_keys": ["node.id"]},
            {"resource_type": METRICS, "resource_name": "x", "configuration_keys": ["metrics"]},
        ]
    }


def _alter(kind: int, name: str, configs: Mapping[str, str], **operation: Any) -> Values:
    """AlterConfigs of one resource, or with an operation IncrementalAlterConfigs."""
    entries = [{"name": key, "value": value, **operation} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    return lambda _: {"resources": [resource], "validate_only": True}


OF_BROKERS: Final = {"message.max.bytes": "1000000"}
ALL_OF_BROKERS: Final = {**OF_BROKERS, "min.insync.replicas": "1"}
"""For AlterConfigs, which removes the others: Kafka refuses to remove min.insync.replicas."""
OF_METRICS: Final = {"interval.ms": "1000"}


APIS: Final[dict[str, tuple[str, tuple[int, ...], int, Values]]] = {
    "create_topics": (
        "CreateTopics",
        (4, 7),
        CREATE,
        lambda stage: {
            "topics": [
                {"name": stage.topic_named("new"), "num_partitions": 1, "replication_factor": 1}
            ],
            "timeout": 5_000,
            "validate_only": True,
        },
    ),
    "delete_topics": (
        "DeleteTopics",
        (5,),
        DELETE,
        lambda stage: {"topic_names": [stage.topic_named("missing")], "timeout": 5_000},
    ),
    "write_txn_markers": ("WriteTxnMarkers", (1, 2), ALTER, _markers),
    "write_txn_markers_as_broker": ("WriteTxnMarkers", (2,), CLUSTER_ACTION, _markers),
    "init_producer_id": (
        "InitProducerId",
        (0, 5),
        IDEMPOTENT_WRITE,
        lambda _: {
            "transactional_id": None,
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    "describe_configs": ("DescribeConfigs", (1, 4), DESCRIBE_CONFIGS, _broker_configs),
    "incremental_alter_configs": (
        "IncrementalAlterConfigs",
        (0, 1),
        ALTER_CONFIGS,
        _alter(BROKER, "", OF_BROKERS, config_operation=0),
    ),
    "alter_configs": (
        "AlterConfigs", (0, 2), ALTER_CONFIGS, _alter(BROKER, "", ALL_OF_BROKERS),
    ),
    "alter_configs_of_metrics": (
        "AlterConfigs", (0, 2), ALTER_CONFIGS, _alter(METRICS, "x", OF_METRICS),
    ),
    "incremental_alter_configs_of_metrics": (
        "IncrementalAlterConfigs",
        (0, 1),
        ALTER_CONFIGS,
        _alter(METRICS, "x", OF_METRICS, config_operation=0),
    ),
    "list_config_resources": (
        "ListConfigResources", (0, 1), DESCRIBE_CONFIGS, lambda _: {"resource_types": [16]},
    ),
    "describe_client_quotas": (
        "DescribeClientQuotas",
        (0, 1),
        DESCRIBE_CONFIGS,
        lambda _: {
            "components": [{"entity_type": "user", "match_type": 0, "match": NOBODY}],
            "strict": True,
        },
    ),
    "alter_client_quotas": (
        "AlterClientQuotas",
        (0, 1),
        ALTER_CONFIGS,
        lambda _: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": NOBODY}],
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
                }
            ],
            "validate_only": True,
        },
    ),
    "describe_acls": (
        "DescribeAcls", (1, 3), DESCRIBE, lambda stage: exactly(_acl(stage, DESCRIBE)),
    ),
    "create_acls": (
        "CreateAcls",
        (1, 3),
        ALTER,
        lambda stage: {"creations": [_acl(stage, DESCRIBE), _acl(stage, DELETE)]},
    ),
    "delete_acls": (
        "DeleteAcls",
        (1, 3),
        ALTER,
        lambda stage: {"filters": [exactly(_acl(stage, each)) for each in (ALTER, CREATE)]},
    ),
    "describe_quorum": (
        "DescribeQuorum",
        (0, 2),
        DESCRIBE,
        lambda stage: {
            "topics": [{"topic_name": stage.topic, "partitions": [{"partition_index": 0}]}]
        },
    ),
    "list_partition_reassignments": (
        "ListPartitionReassignments", (0,), DESCRIBE, lambda _: {"timeout": 5_000, "topics": None},
    ),
    "alter_partition_reassignments": (
        "AlterPartitionReassignments", (0, 1), ALTER, _reassignments,
    ),
    "elect_leaders": (
        "ElectLeaders",
        (0, 1, 2),
        ALTER,
        lambda stage: {
            "topic_partitions": [{"topic": stage.topic_named("missing"), "partitions": [0]}],
            "timeout": 5_000,
        },
    ),
    "update_features": (
        "UpdateFeatures",
        (0, 1, 2),
        ALTER,
        lambda _: {
            "timeout": 5_000,
            "feature_updates": [{"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}],
        },
    ),
    "describe_user_scram_credentials": (
        "DescribeUserScramCredentials", (0,), DESCRIBE, lambda _: {"users": [{"name": NOBODY}]},
    ),
    "alter_user_scram_credentials": (
        "AlterUserScramCredentials",
        (0,),
        ALTER,
        lambda _: {"deletions": [{"name": NOBODY, "mechanism": 1}]},
    ),
    "metadata_operations": (
        "Metadata",
        (8, 10),
        DESCRIBE,
        lambda _: {"topics": [], "include_cluster_authorized_operations": True},
    ),
    "describe_cluster": (
        "DescribeCluster",
        (0, 2),
        DESCRIBE,
        lambda _: {"include_cluster_authorized_operations": True},
    ),
    "verify_partitions": ("AddPartitionsToTxn", (4, 5), CLUSTER_ACTION, _verification),
    "offset_for_leader_epoch": ("OffsetForLeaderEpoch", (4,), CLUSTER_ACTION, _leader_epochs),
    "list_offsets": ("ListOffsets", (7,), CLUSTER_ACTION, _first_offsets),
}  # fmt: skip
"""By scenario: an API, versions of it, the operation that it needs, and the request."""


async def _play(
    stage: Stage,
    user: str,
    api: str,
    versions: Iterable[int],
    operation: int,
    values: Values,
) -> None:
    await stage.create_topic()
    client = await stage.client("a", user)
    for allowed in (False, True):
        if allowed:
            await grant(stage, entry(user, operation, CLUSTER))
        for version in versions:
            await client.ask(api, version, **values(stage))


def _register(number: int, name: str, api: str, versions: Any, operation: int, values: Any) -> None:
    async def play(stage: Stage) -> None:
        # A user of its own: what it may do with the cluster is seen by no other scenario.
        await _play(stage, f"user{number}", api, versions, operation, values)

    play.__name__ = name
    play.__doc__ = f"{api} without the operation on the cluster, and with it."
    play.__module__ = __name__
    scenario(profile=SECURED)(play)


for each_number, (each_name, each_api) in enumerate(APIS.items()):
    _register(10 + each_number, each_name, *each_api)


@scenario(profile=SECURED)
async def log_dirs(stage: Stage) -> None:
    """Directories are shown to nobody who may not describe the cluster."""
    a = await stage.client("a", "user2")
    for version in (1, 3, 5):
        await a.ask("DescribeLogDirs", version, topics=None)


@scenario(profile=SECURED)
async def all_acls(stage: Stage) -> None:
    """A user that may not describe the cluster sees no ACL, whatever the filter."""
    a = await stage.client("a", "user2")
    await a.ask("DescribeAcls", 3, **everything())
