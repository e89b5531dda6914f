"""The layouts of all group records that Kafka 4.4 writes into `__consumer_offsets`.

| type | | |
|---|---|---|
| 2 | classic | group with its members, v0-v4 |
| 3, 11, 17 | epoch | group epoch (consumer, share, streams) |
| 5, 10, 19 | member | fields that a member sends |
| 6, 12, 20 | target | epoch and time of the target assignment |
| 7, 13, 21 | target | target assignment of a member |
| 8, 14, 22 | current | epoch, state and assignment of a member |
| 4, 15, 16, 23 | other | topics' metadata, share partitions, regular expression, topology |

Types 0 and 1 are committed offsets. 9 and 18 are metadata of topics that early access versions of
share and streams groups wrote; no released version reads them.

Source: the message schemas of Kafka's group-coordinator.
"""

from typing import Final, NamedTuple

from kohort.history.layouts import (
    Reader,
    array,
    blob,
    compact_array,
    compact_blob,
    compact_int32s,
    compact_nullable_int32s,
    compact_nullable_string,
    compact_string,
    flexible,
    int8,
    int16,
    int32,
    int64,
    nullable,
    nullable_string,
    string,
    struct,
    tagged_nullable,
    uint16,
    uuid,
)

GROUP_METADATA: Final = 2


class Layout(NamedTuple):
    """The layout of the records of one type."""

    protocol: str
    """Of its groups: classic | consumer | share | streams."""
    kind: str
    """Column of `schema.GROUPS` that it fills."""
    name: str
    value: Reader
    """Of version 0, the only one."""
    has_member: bool = False
    """Whether the key ends with a member id, or with a regular expression."""


_MEMBER_HEAD: Final = (("member_id", string),)
_CLIENT: Final = (("client_id", string), ("client_host", string))
_SESSION: Final = (("session_timeout_ms", int32), ("subscription", blob), ("assignment", blob))
_REBALANCE_TIMEOUT: Final = (("rebalance_timeout_ms", int32),)
_INSTANCE: Final = (("instance_id", nullable_string),)
_MEMBER_V0: Final = struct(*_MEMBER_HEAD, *_CLIENT, *_SESSION)
_MEMBER_V1: Final = struct(*_MEMBER_HEAD, *_CLIENT, *_REBALANCE_TIMEOUT, *_SESSION)
_MEMBER_V3: Final = struct(*_MEMBER_HEAD, *_INSTANCE, *_CLIENT, *_REBALANCE_TIMEOUT, *_SESSION)
_MEMBER_V4: Final = flexible(
    ("member_id", compact_string),
    ("instance_id", compact_nullable_string),
    ("client_id", compact_string),
    ("client_host", compact_string),
    *_REBALANCE_TIMEOUT,
    ("session_timeout_ms", int32),
    ("subscription", compact_blob),
    ("assignment", compact_blob),
)
_HEAD: Final = (
    ("protocol_type", string),
    ("generation", int32),
    ("protocol", nullable_string),
    ("leader", nullable_string),
)
_STATE_TIME: Final = (("state_time", int64),)
CLASSIC: Final = (
    struct(*_HEAD, ("members", array(_MEMBER_V0))),
    struct(*_HEAD, ("members", array(_MEMBER_V1))),
    struct(*_HEAD, *_STATE_TIME, ("members", array(_MEMBER_V1))),
    struct(*_HEAD, *_STATE_TIME, ("members", array(_MEMBER_V3))),
    flexible(
        ("protocol_type", compact_string),
        ("generation", int32),
        ("protocol", compact_nullable_string),
        ("leader", compact_nullable_string),
        *_STATE_TIME,
        ("members", compact_array(_MEMBER_V4)),
    ),
)
"""GroupMetadataValue v0-v4, behind the version."""


def _redpanda_member(data: bytes, at: int) -> tuple[object, int]:
    version, at = int16(data, at)
    return (_MEMBER_V0 if version == 0 else _MEMBER_V1 if version < 3 else _MEMBER_V3)(data, at)


REDPANDA: Final = (
    struct(*_HEAD, ("members", array(_redpanda_member))),
    struct(*_HEAD, ("members", array(_redpanda_member))),
    struct(*_HEAD, *_STATE_TIME, ("members", array(_redpanda_member))),
    struct(*_HEAD, *_STATE_TIME, ("members", array(_redpanda_member))),
)
"""GroupMetadataValue as Redpanda writes it: each member begins with a version of its own.

Source: Redpanda's group_metadata.cc.
"""

_EPOCH: Final = ("epoch", int32)
_CURRENT: Final = (_EPOCH, ("previous_epoch", int32), ("state", int8))
_EPOCHS: Final = {0: ("epochs", compact_nullable_int32s, None)}
_partitions: Final = compact_array(flexible(("topic_id", uuid), ("partitions", compact_int32s)))
_assigned: Final = compact_array(
    flexible(("topic_id", uuid), ("partitions", compact_int32s), tags=_EPOCHS)
)
_task_fields: Final = (("subtopology", compact_string), ("partitions", compact_int32s))
_tasks: Final = compact_array(flexible(*_task_fields))
_current_tasks: Final = compact_array(flexible(*_task_fields, tags=_EPOCHS))
_strings: Final = compact_array(compact_string)
_int16s: Final = compact_array(int16)
_pairs: Final = compact_array(flexible(("key", compact_string), ("value", compact_string)))
_configs: Final = compact_array(flexible(("key", compact_string), ("value", compact_string)))
_classic: Final = tagged_nullable(
    flexible(
        ("session_timeout_ms", int32),
        (
            "protocols",
            compact_array(flexible(("name", compact_string), ("subscription", compact_blob))),
        ),
    )
)
_target_metadata: Final = flexible(_EPOCH, tags={0: ("target_time", int64, 0)})
_topic_info: Final = compact_array(
    flexible(
        ("name", compact_string),
        ("partitions", int32),
        ("replication_factor", int16),
        ("configs", _configs),
    )
)
_topic: Final = (("topic_id", uuid), ("topic", compact_string))
_named_partitions: Final = compact_array(flexible(*_topic, ("partitions", compact_int32s)))

LAYOUTS: Final = {
    3: Layout(
        "consumer",
        "epoch",
        "ConsumerGroupMetadata",
        flexible(_EPOCH, tags={0: ("metadata_hash", int64, 0)}),
    ),
    4: Layout(
        "consumer",
        "other",
        "ConsumerGroupPartitionMetadata",
        flexible(
            (
                "topics",
                compact_array(
                    flexible(
                        *_topic,
                        ("num_partitions", int32),
                        (
                            "partition_metadata",
                            compact_array(flexible(("partition", int32), ("racks", _strings))),
                        ),
                    )
                ),
            )
        ),
    ),
    5: Layout(
        "consumer",
        "member",
        "ConsumerGroupMemberMetadata",
        flexible(
            ("instance_id", compact_nullable_string),
            ("rack", compact_nullable_string),
            ("client_id", compact_string),
            ("client_host", compact_string),
            ("topics", _strings),
            ("regex", compact_nullable_string),
            ("rebalance_timeout_ms", int32),
            ("assignor", compact_nullable_string),
            # Kafka writes null for a member of the consumer protocol. Without the field, it reads
            # an empty classic member.
            tags={0: ("classic", _classic, {"session_timeout_ms": 0, "protocols": []})},
        ),
        has_member=True,
    ),
    6: Layout("consumer", "target", "ConsumerGroupTargetAssignmentMetadata", _target_metadata),
    7: Layout(
        "consumer",
        "target",
        "ConsumerGroupTargetAssignmentMember",
        flexible(("partitions", _partitions)),
        has_member=True,
    ),
    8: Layout(
        "consumer",
        "current",
        "ConsumerGroupCurrentMemberAssignment",
        flexible(*_CURRENT, ("assigned", _assigned), ("pending", _assigned)),
        has_member=True,
    ),
    10: Layout(
        "share",
        "member",
        "ShareGroupMemberMetadata",
        flexible(
            ("rack", compact_nullable_string),
            ("client_id", compact_string),
            ("client_host", compact_string),
            ("topics", _strings),
        ),
        has_member=True,
    ),
    11: Layout("share", "epoch", "ShareGroupMetadata", flexible(_EPOCH, ("metadata_hash", int64))),
    12: Layout("share", "target", "ShareGroupTargetAssignmentMetadata", _target_metadata),
    13: Layout(
        "share",
        "target",
        "ShareGroupTargetAssignmentMember",
        flexible(("partitions", _partitions)),
        has_member=True,
    ),
    14: Layout(
        "share",
        "current",
        "ShareGroupCurrentMemberAssignment",
        flexible(*_CURRENT, ("assigned", _partitions)),
        has_member=True,
    ),
    15: Layout(
        "share",
        "other",
        "ShareGroupStatePartitionMetadata",
        flexible(
            ("initializing", _named_partitions),
            ("initialized", _named_partitions),
            ("deleting", compact_array(flexible(*_topic))),
        ),
    ),
    16: Layout(
        "consumer",
        "other",
        "ConsumerGroupRegularExpression",
        flexible(("topics", _strings), ("version", int64), ("time", int64)),
        has_member=True,
    ),
    17: Layout(
        "streams",
        "epoch",
        "StreamsGroupMetadata",
        flexible(
            _EPOCH,
            ("metadata_hash", int64),
            tags={
                0: ("topology_epoch", int32, None),
                1: ("last_assignment_configs", _pairs, []),
            },
        ),
    ),
    19: Layout(
        "streams",
        "member",
        "StreamsGroupMemberMetadata",
        flexible(
            ("instance_id", compact_nullable_string),
            ("rack", compact_nullable_string),
            ("client_id", compact_string),
            ("client_host", compact_string),
            ("rebalance_timeout_ms", int32),
            ("topology_epoch", int32),
            ("process_id", compact_string),
            ("endpoint", nullable(flexible(("host", compact_string), ("port", uint16)))),
            ("client_tags", _pairs),
        ),
        has_member=True,
    ),
    20: Layout("streams", "target", "StreamsGroupTargetAssignmentMetadata", _target_metadata),
    21: Layout(
        "streams",
        "target",
        "StreamsGroupTargetAssignmentMember",
        flexible(("active", _tasks), ("standby", _tasks), ("warmup", _tasks)),
        has_member=True,
    ),
    22: Layout(
        "streams",
        "current",
        "StreamsGroupCurrentMemberAssignment",
        flexible(
            *_CURRENT,
            ("active", _current_tasks),
            ("standby", _current_tasks),
            ("warmup", _current_tasks),
            ("pending active", _current_tasks),
            ("pending standby", _current_tasks),
            ("pending warmup", _current_tasks),
        ),
        has_member=True,
    ),
    23: Layout(
        "streams",
        "other",
        "StreamsGroupTopology",
        flexible(
            _EPOCH,
            (
                "subtopologies",
                compact_array(
                    flexible(
                        ("subtopology", compact_string),
                        ("source_topics", _strings),
                        ("source_topic_regex", _strings),
                        ("state_changelog_topics", _topic_info),
                        ("repartition_sink_topics", _strings),
                        ("repartition_source_topics", _topic_info),
                        (
                            "copartition_groups",
                            compact_array(
                                flexible(
                                    ("source_topics", _int16s),
                                    ("source_topic_regex", _int16s),
                                    ("repartition_source_topics", _int16s),
                                )
                            ),
                        ),
                    )
                ),
            ),
        ),
    ),
}
"""Type of the key → layout; all but `GROUP_METADATA`, whose value has several versions."""
