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
_TOPIC: Final = (("topic_id", uuid), ("topic", compact_string))
_IDENTITY: Final = (("client_id", compact_string), ("client_host", compact_string))
_INSTANCE_AND_RACK: Final = (
    ("instance_id", compact_nullable_string),
    ("rack", compact_nullable_string),
)
_PARTITIONS: Final = ("partitions", compact_int32s)
_TASK: Final = (("subtopology", compact_string), _PARTITIONS)
_strings: Final = compact_array(compact_string)
_int16s: Final = compact_array(int16)
_pairs: Final = compact_array(flexible(("key", compact_string), ("value", compact_string)))
_partitions: Final = compact_array(flexible(("topic_id", uuid), _PARTITIONS))
_assigned: Final = compact_array(flexible(("topic_id", uuid), _PARTITIONS, tags=_EPOCHS))
_named_partitions: Final = compact_array(flexible(*_TOPIC, _PARTITIONS))
_tasks: Final = compact_array(flexible(*_TASK))
_current_tasks: Final = compact_array(flexible(*_TASK, tags=_EPOCHS))
_classic_protocol: Final = flexible(("name", compact_string), ("subscription", compact_blob))
_classic_member: Final = flexible(
    ("session_timeout_ms", int32), ("protocols", compact_array(_classic_protocol))
)
_EMPTY_CLASSIC_MEMBER: Final = {"session_timeout_ms": 0, "protocols": []}
_racks: Final = flexible(("partition", int32), ("racks", _strings))
_internal_topic: Final = flexible(
    ("name", compact_string), ("partitions", int32), ("replication_factor", int16),
    ("configs", _pairs),
)  # fmt: skip
_copartition_group: Final = flexible(
    ("source_topics", _int16s), ("source_topic_regex", _int16s),
    ("repartition_source_topics", _int16s),
)  # fmt: skip
_subtopology: Final = flexible(
    ("subtopology", compact_string), ("source_topics", _strings), ("source_topic_regex", _strings),
    ("state_changelog_topics", compact_array(_internal_topic)),
    ("repartition_sink_topics", _strings),
    ("repartition_source_topics", compact_array(_internal_topic)),
    ("copartition_groups", compact_array(_copartition_group)),
)  # fmt: skip

_consumer_epoch: Final = flexible(_EPOCH, tags={0: ("metadata_hash", int64, 0)})
_share_epoch: Final = flexible(_EPOCH, ("metadata_hash", int64))
_streams_epoch: Final = flexible(
    _EPOCH, ("metadata_hash", int64),
    tags={0: ("topology_epoch", int32, None), 1: ("last_assignment_configs", _pairs, [])},
)  # fmt: skip
_topics_metadata: Final = flexible(
    ("topics", compact_array(flexible(
        *_TOPIC, ("num_partitions", int32), ("partition_metadata", compact_array(_racks)),
    ))),
)  # fmt: skip
_consumer_member: Final = flexible(
    *_INSTANCE_AND_RACK, *_IDENTITY, ("topics", _strings), ("regex", compact_nullable_string),
    ("rebalance_timeout_ms", int32), ("assignor", compact_nullable_string),
    # Kafka writes null for a member of the consumer protocol. Without the field, it reads an empty
    # classic member.
    tags={0: ("classic", tagged_nullable(_classic_member), _EMPTY_CLASSIC_MEMBER)},
)  # fmt: skip
_share_member: Final = flexible(
    ("rack", compact_nullable_string), *_IDENTITY, ("topics", _strings)
)  # fmt: skip
_streams_member: Final = flexible(
    *_INSTANCE_AND_RACK, *_IDENTITY, ("rebalance_timeout_ms", int32), ("topology_epoch", int32),
    ("process_id", compact_string),
    ("endpoint", nullable(flexible(("host", compact_string), ("port", uint16)))),
    ("client_tags", _pairs),
)  # fmt: skip
_target_epoch: Final = flexible(_EPOCH, tags={0: ("target_time", int64, 0)})
_target: Final = flexible(("partitions", _partitions))
_streams_target: Final = flexible(("active", _tasks), ("standby", _tasks), ("warmup", _tasks))
_consumer_current: Final = flexible(*_CURRENT, ("assigned", _assigned), ("pending", _assigned))
_share_current: Final = flexible(*_CURRENT, ("assigned", _partitions))
_streams_current: Final = flexible(
    *_CURRENT,
    ("active", _current_tasks), ("standby", _current_tasks), ("warmup", _current_tasks),
    ("pending active", _current_tasks), ("pending standby", _current_tasks),
    ("pending warmup", _current_tasks),
)  # fmt: skip
_share_partitions: Final = flexible(
    ("initializing", _named_partitions), ("initialized", _named_partitions),
    ("deleting", compact_array(flexible(*_TOPIC))),
)  # fmt: skip
_regex: Final = flexible(("topics", _strings), ("version", int64), ("time", int64))
_topology: Final = flexible(_EPOCH, ("subtopologies", compact_array(_subtopology)))

LAYOUTS: Final = {
    3: Layout("consumer", "epoch", "ConsumerGroupMetadata", _consumer_epoch),
    4: Layout("consumer", "other", "ConsumerGroupPartitionMetadata", _topics_metadata),
    5: Layout("consumer", "member", "ConsumerGroupMemberMetadata", _consumer_member, True),
    6: Layout("consumer", "target", "ConsumerGroupTargetAssignmentMetadata", _target_epoch),
    7: Layout("consumer", "target", "ConsumerGroupTargetAssignmentMember", _target, True),
    8: Layout(
        "consumer", "current", "ConsumerGroupCurrentMemberAssignment", _consumer_current, True
    ),
    10: Layout("share", "member", "ShareGroupMemberMetadata", _share_member, True),
    11: Layout("share", "epoch", "ShareGroupMetadata", _share_epoch),
    12: Layout("share", "target", "ShareGroupTargetAssignmentMetadata", _target_epoch),
    13: Layout("share", "target", "ShareGroupTargetAssignmentMember", _target, True),
    14: Layout("share", "current", "ShareGroupCurrentMemberAssignment", _share_current, True),
    15: Layout("share", "other", "ShareGroupStatePartitionMetadata", _share_partitions),
    16: Layout("consumer", "other", "ConsumerGroupRegularExpression", _regex, True),
    17: Layout("streams", "epoch", "StreamsGroupMetadata", _streams_epoch),
    19: Layout("streams", "member", "StreamsGroupMemberMetadata", _streams_member, True),
    20: Layout("streams", "target", "StreamsGroupTargetAssignmentMetadata", _target_epoch),
    21: Layout("streams", "target", "StreamsGroupTargetAssignmentMember", _streams_target, True),
    22: Layout("streams", "current", "StreamsGroupCurrentMemberAssignment", _streams_current, True),
    23: Layout("streams", "other", "StreamsGroupTopology", _topology),
}
"""Type of the key → layout; all but `GROUP_METADATA`, whose value has several versions."""
