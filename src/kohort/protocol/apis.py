"""The table of served APIs: API key -> name, versions, encoding.

The `ApiVersions` response is computed from it and requests are dispatched by it, so advertised and
served versions cannot differ. The name is also the module under `server/handlers/` and kio's schema
package. Ranges are those of Apache Kafka 4.4. An API that is not in the table is not advertised,
and a request for it closes its connection.

Clients use the highest common version, except for those that never request versions: kafka-go sends
fixed old ones. The lowest version therefore matters as much as the highest.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


def kafka_name(name: str) -> str:
    """A name as Kafka writes it: `offset_commit` is `OffsetCommit`."""
    return "".join(map(str.capitalize, name.split("_")))


@dataclass(frozen=True)
class Api:
    """One API: its decoding, and its entry in `ApiVersions`."""

    key: int
    name: str
    """Kafka's name in snake case."""
    min_version: int
    max_version: int
    first_flexible: int
    """First version with compact strings and tagged fields (KIP-482); beyond `max_version`: none.
    """
    advertised_from: int
    """Lowest version in `ApiVersions`; lower than `min_version` only for Produce."""

    @property
    def kafka_name(self) -> str:
        """As in Kafka's documentation: `OffsetCommit`."""
        return kafka_name(self.name)

    def serves(self, version: int) -> bool:
        """Whether requests of `version` are served."""
        return self.min_version <= version <= self.max_version

    def flexible(self, version: int) -> bool:
        """Whether `version` is encoded with compact lengths and tags."""
        return version >= self.first_flexible


NEVER: Final = 1 << 15
"""A version no request can have."""


def _api(
    key: int,
    name: str,
    versions: tuple[int, int],
    flexible: int,
    advertised_from: int | None = None,
) -> Api:
    first, last = versions
    return Api(
        key, name, first, last, flexible, first if advertised_from is None else advertised_from
    )


_TABLE = (
    # librdkafka reads Produce's lower end as "understands old messages" and turns compression off
    # above 0 (KAFKA-18659): brokers since 4.0 advertise 0 and decode from 3.
    _api(0, "produce", (3, 13), 9, advertised_from=0),
    _api(1, "fetch", (4, 18), 12),
    _api(2, "list_offsets", (1, 11), 6),
    _api(3, "metadata", (0, 13), 9),
    _api(8, "offset_commit", (2, 10), 8),
    _api(9, "offset_fetch", (1, 10), 6),
    _api(10, "find_coordinator", (0, 6), 3),
    _api(11, "join_group", (0, 9), 6),
    _api(12, "heartbeat", (0, 4), 4),
    _api(13, "leave_group", (0, 5), 4),
    _api(14, "sync_group", (0, 5), 4),
    _api(15, "describe_groups", (0, 6), 5),
    _api(16, "list_groups", (0, 5), 3),
    _api(17, "sasl_handshake", (0, 1), NEVER),
    _api(18, "api_versions", (0, 5), 3),
    _api(19, "create_topics", (2, 7), 5),
    _api(20, "delete_topics", (1, 6), 4),
    _api(21, "delete_records", (0, 2), 2),
    _api(22, "init_producer_id", (0, 5), 2),
    _api(23, "offset_for_leader_epoch", (2, 4), 4),
    _api(24, "add_partitions_to_txn", (0, 5), 3),
    _api(25, "add_offsets_to_txn", (0, 4), 3),
    _api(26, "end_txn", (0, 5), 3),
    _api(27, "write_txn_markers", (1, 2), 1),
    _api(28, "txn_offset_commit", (0, 6), 3),
    _api(29, "describe_acls", (1, 3), 2),
    _api(30, "create_acls", (1, 3), 2),
    _api(31, "delete_acls", (1, 3), 2),
    _api(32, "describe_configs", (1, 4), 4),
    _api(33, "alter_configs", (0, 2), 2),
    _api(35, "describe_log_dirs", (1, 5), 2),
    _api(36, "sasl_authenticate", (0, 2), 2),
    _api(37, "create_partitions", (0, 3), 2),
    _api(42, "delete_groups", (0, 3), 2),
    _api(43, "elect_leaders", (0, 2), 2),
    _api(44, "incremental_alter_configs", (0, 1), 1),
    _api(45, "alter_partition_reassignments", (0, 1), 0),
    _api(46, "list_partition_reassignments", (0, 0), 0),
    _api(47, "offset_delete", (0, 0), NEVER),
    _api(48, "describe_client_quotas", (0, 1), 1),
    _api(49, "alter_client_quotas", (0, 1), 1),
    _api(50, "describe_user_scram_credentials", (0, 0), 0),
    _api(51, "alter_user_scram_credentials", (0, 0), 0),
    _api(55, "describe_quorum", (0, 2), 0),
    _api(57, "update_features", (0, 2), 0),
    _api(60, "describe_cluster", (0, 2), 0),
    _api(61, "describe_producers", (0, 0), 0),
    _api(65, "describe_transactions", (0, 0), 0),
    _api(66, "list_transactions", (0, 2), 0),
    _api(68, "consumer_group_heartbeat", (0, 1), 0),
    _api(69, "consumer_group_describe", (0, 1), 0),
    _api(74, "list_config_resources", (0, 1), 0),
    _api(75, "describe_topic_partitions", (0, 0), 0),
)

APIS: Final = MappingProxyType({api.key: api for api in _TABLE})
"""Every API that is served, by key, in the order in which `ApiVersions` lists them."""

ENVELOPE: Final = 58
ALLOCATE_PRODUCER_IDS: Final = 67

NODE_APIS: Final = MappingProxyType(
    {
        api.key: api
        for api in (
            _api(ENVELOPE, "envelope", (0, 0), 0),
            _api(ALLOCATE_PRODUCER_IDS, "allocate_producer_ids", (0, 0), 0),
        )
    }
)
"""APIs that the nodes of a cluster serve to each other, and not to clients."""

ALL_APIS: Final = MappingProxyType({**APIS, **NODE_APIS})

BY_NAME: Final = MappingProxyType({api.name: api for api in _TABLE})

API_VERSIONS: Final = BY_NAME["api_versions"].key
