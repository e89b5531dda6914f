"""Requests of the cluster, its configs and its quotas."""

from collections.abc import Mapping
from typing import Final

from kohort.protocol.messages import encode, request
from live.server.server import framed
from live.server.worst_requests.build import MARK, Build, long_text, nested, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "api_versions": {
        "software": long_text(
            "api_versions", 3, "client_software_name", client_software_version="1"
        )
    },
    "describe_configs": {
        "topics": repeated(
            "describe_configs",
            4,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configuration_keys": None},
        ),
        "keys": nested(
            "describe_configs",
            4,
            "resources",
            {"resource_type": 2, "resource_name": "t0"},
            "configuration_keys",
            MARK,
        ),
    },
    "incremental_alter_configs": {
        "topics": repeated(
            "incremental_alter_configs",
            1,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configs": []},
        ),
        "configs": nested(
            "incremental_alter_configs",
            1,
            "resources",
            {"resource_type": 2, "resource_name": "t0"},
            "configs",
            {"name": MARK, "config_operation": 0, "value": "1"},
        ),
    },
    "alter_configs": {
        "topics": repeated(
            "alter_configs",
            2,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configs": []},
        ),
        "configs": nested(
            "alter_configs",
            2,
            "resources",
            {"resource_type": 4, "resource_name": "0"},
            "configs",
            {"name": MARK, "value": "1"},
        ),
    },
    "list_config_resources": {"types": repeated("list_config_resources", 1, "resource_types", 2)},
    "describe_client_quotas": {
        "components": repeated(
            "describe_client_quotas",
            1,
            "components",
            {"entity_type": MARK, "match_type": 2, "match": None},
        )
    },
    "alter_client_quotas": {
        "entries": repeated(
            "alter_client_quotas",
            1,
            "entries",
            {
                "entity": [{"entity_type": "user", "entity_name": MARK}],
                "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
            },
            elements=3,
            validate_only=False,
        ),
        "ops": nested(
            "alter_client_quotas",
            1,
            "entries",
            {"entity": [{"entity_type": "user", "entity_name": "u"}]},
            "ops",
            {"key": MARK, "value": 1000.0, "remove": False},
            elements=2,
            validate_only=False,
        ),
    },
    "describe_quorum": {
        "topics": repeated(
            "describe_quorum",
            2,
            "topics",
            {"topic_name": MARK, "partitions": [{"partition_index": 0}]},
            elements=2,
        ),
        "partitions": nested(
            "describe_quorum",
            2,
            "topics",
            {"topic_name": "__cluster_metadata"},
            "partitions",
            {"partition_index": 0},
        ),
    },
    "update_features": {
        "updates": repeated(
            "update_features",
            1,
            "feature_updates",
            {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1},
            timeout=1000,
        )
    },
    "describe_cluster": {"": lambda size: framed("describe_cluster", 0, encode(request(60, 0)))},
}
