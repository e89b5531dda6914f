"""Hints for methods that are named as other clients, or Java's, name them.

The names are those of aiokafka, confluent-kafka, kafka-python and Java's client.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kohort.util.text import did_you_mean

_ENTER: Final = "there is nothing to start: enter its block, (async) with … as …"
_LEAVE: Final = "leaving its block ends it, and so does close()"
_MEMBERS: Final = "members share topics by ConsumerGroup(group_id, topics=[…])"
_NO_POLL: Final = "there is nothing to poll: heartbeats and callbacks run beside the application"
_WORKERS: Final = (
    "iterate over the group: generations in kohort.client, batches in kohort.client.sync"
)
_BATCHES: Final = "iterate over the group, or over group.batches(max_wait_ms=…)"
_ASSIGNS: Final = "the group assigns partitions; a Consumer reads those that you choose"
_LISTS: Final = "Admin.list_offsets({partition: EARLIEST, LATEST or a time}) requests offsets"
_TOPICS: Final = "Admin.describe_topics() names the topics"
_SCOPE: Final = "a transaction is a scope: (async) with producer.transaction() as transaction"
_OFFSETS: Final = "call transaction.commit_offsets(offsets, group) in the scope of a transaction"
_SECURITY: Final = "credentials are options: security=Security(username=…, password=…)"
_CLUSTER_ID: Final = "Admin.describe_cluster() has it"
_PARTITION_OFFSETS: Final = "beginning_offsets(partitions) and end_offsets(partitions)"

CONSUMER: Final = {
    "start": _ENTER,
    "cluster_id": _CLUSTER_ID,
    "stop": _LEAVE,
    "subscribe": f"assign_topics('orders') reads all partitions of a topic; {_MEMBERS}",
    "subscription": "assignment has the partitions that are read",
    "unsubscribe": "assign([]) reads nothing any more",
    "unassign": "assign([]) reads nothing any more",
    "incremental_assign": "assign takes all partitions; those that are read already go on",
    "incremental_unassign": "assign takes the partitions that stay",
    "poll": "iterate over the consumer, or call next_batch(max_wait_ms=…)",
    "consume": "iterate over the consumer, or call next_batch(max_wait_ms=…)",
    "getone": "anext(consumer), or next(consumer) in kohort.client.sync, is the next record",
    "getmany": "next_batch(max_wait_ms=…) is the next batch",
    "list_topics": _TOPICS,
    "topics": _TOPICS,
    "partitions_for_topic": "partitions_for(topic) is its name here",
    "get_watermark_offsets": _PARTITION_OFFSETS,
    "highwater": "lag(partition) is the distance to the end, end_offsets(partitions) requests it",
    "last_stable_offset": "end_offsets(partitions), with isolation_level='read_committed'",
    "seek_to_committed": "committed(partitions) has the offsets; seek(partition, offset)",
    "store_offsets": "commit(offsets) commits them",
    "memberid": _MEMBERS,
    "consumer_group_metadata": _MEMBERS,
    "group_metadata": _MEMBERS,
    "commit_async": "commit() is its name here; enable_auto_commit commits beside the application",
    "set_sasl_credentials": _SECURITY,
}
GROUP: Final = {
    "start": _ENTER,
    "cluster_id": _CLUSTER_ID,
    "unsubscribe": "stop() leaves the group; subscribe(topics) changes its topics",
    "subscription": "config.topics has the topics of the options",
    "assign": _ASSIGNS,
    "poll": _WORKERS,
    "consume": _WORKERS,
    "getone": _WORKERS,
    "getmany": _WORKERS,
    "list_topics": _TOPICS,
    "topics": _TOPICS,
    "memberid": "member_id is its name here",
    "store_offsets": "generation.commit(offsets), with commit_interval_ms, returns at once",
    "consumer_group_metadata": "generation.to_commit(offsets) has it, for Transaction",
    "group_metadata": "generation.to_commit(offsets) has it, for Transaction",
    "set_sasl_credentials": _SECURITY,
    "committed": "Admin.committed([group_id]), or generation.committed(partition)",
    "commit": "generation.commit({partition: batch.next_offset})",
    "commit_async": "generation.commit(offsets), with commit_interval_ms, returns at once",
    "partitions_for_topic": "Producer and Consumer have partitions_for(topic)",
    "paused": "the generation has pause and resume: keep what you pause",
    "seek_to_committed": "generation.seek(partition, offset) goes to an offset",
    **dict.fromkeys(("unassign", "incremental_assign", "incremental_unassign"), _ASSIGNS),
    **dict.fromkeys(("get_watermark_offsets", "highwater", "last_stable_offset"), _LISTS),
    **dict.fromkeys(("beginning_offsets", "end_offsets", "offsets_for_times"), _LISTS),
    **dict.fromkeys(("seek_to_beginning", "seek_to_end"), f"{_LISTS}; generation.seek goes there"),
    **dict.fromkeys(
        ("seek", "pause", "resume", "position", "lag", "assignment"),
        "it is a method or property of the generation: async for generation in group",
    ),
}
_GROUP_COMMIT: Final = "commit(offsets) commits them, with commit_interval_ms in an interval"
_OF_BLOCKING: Final = frozenset(
    ("commit", "seek", "pause", "resume", "position", "lag", "assignment", "topics")
)
"""What the blocking group has itself."""
SYNC_GROUP: Final = {
    **{name: hint for name, hint in GROUP.items() if name not in _OF_BLOCKING},
    **dict.fromkeys(("poll", "consume", "getone", "getmany"), _BATCHES),
    "committed": "Admin.committed([group_id]) requests it, run(…) waits for it",
    "commit_async": _GROUP_COMMIT,
    "store_offsets": _GROUP_COMMIT,
    "paused": "keep what you pause; pause and resume take partitions",
    "seek_to_committed": "seek(partition, offset) goes to an offset",
    **dict.fromkeys(("seek_to_beginning", "seek_to_end"), f"{_LISTS}; seek goes there"),
}
PRODUCER: Final = {
    "start": _ENTER,
    "cluster_id": _CLUSTER_ID,
    "stop": _LEAVE,
    "produce": "send(topic, value, key=…) queues a record, and returns its delivery",
    "send_batch": "send batches records by itself: batch_size, linger_ms",
    "create_batch": "send batches records by itself: batch_size, linger_ms",
    "produce_batch": "send batches records by itself: batch_size, linger_ms",
    "poll": _NO_POLL,
    "purge": "close(timeout_ms=0) drops what is queued",
    "list_topics": _TOPICS,
    "partitions_for_topic": "partitions_for(topic) is its name here",
    "init_transactions": "entering the producer's block does it",
    "begin_transaction": _SCOPE,
    "commit_transaction": f"{_SCOPE}, which commits at its end",
    "abort_transaction": f"{_SCOPE}; transaction.abort() ends it",
    "send_offsets_to_transaction": _OFFSETS,
    "set_sasl_credentials": _SECURITY,
}
ADMIN: Final = {
    "start": _ENTER,
    "cluster_id": "describe_cluster() has it",
    "stop": _LEAVE,
    "poll": _NO_POLL,
    "list_topics": "describe_topics() is its name here",
    "create_topics": "create_topic(name, partitions=…) creates one",
    "delete_topics": "delete_topic(name) deletes one",
    "list_consumer_groups": "list_groups() is its name here",
    "describe_consumer_groups": "describe_groups(groups) is its name here",
    "delete_consumer_groups": "delete_groups(groups) is its name here",
    "list_consumer_group_offsets": "committed(groups) is its name here",
    "list_group_offsets": "committed(groups) is its name here",
    "alter_consumer_group_offsets": "commit(group, offsets) is its name here",
    "alter_group_offsets": "commit(group, offsets) is its name here",
    "reset_group_offsets": "commit(group, offsets) is its name here",
    "delete_consumer_group_offsets": "delete_offsets(group, partitions) is its name here",
    "delete_group_offsets": "delete_offsets(group, partitions) is its name here",
    "remove_group_members": "remove_members(group, …) is its name here",
    "list_partition_offsets": "list_offsets(times) is its name here",
    "describe_topic_partitions": "describe_topics() is its name here",
    "reset_configs": "alter_configs(resource, delete=names) is its name here",
    "remove_members_from_consumer_group": "remove_members(group, …) is its name here",
    "incremental_alter_configs": "alter_configs(resource, set) is its name here",
    "describe_user_scram_credentials": "describe_scram_users(users) is its name here",
    "alter_user_scram_credentials": "set_scram_password and delete_scram_credential do it",
    "set_sasl_credentials": _SECURITY,
}
NOTHING_LIKE_IT: Final = frozenset(
    {
        *("bootstrap", "bootstrap_connected", "last_poll_timestamp"),
        *("api_versions", "get_broker_version_data", "max_usable_produce_magic", "wait_for_topics"),
        *("describe_features", "update_features", "describe_metadata_quorum", "elect_leaders"),
        *("alter_partition_reassignments", "list_partition_reassignments"),
        *("alter_replica_log_dirs", "list_config_resources"),
    }
)
"""Methods of other clients that no name here is near to, however much the letters are alike."""


class MethodHints:
    """Has the AttributeError for a name that a class does not have say what to call instead."""

    __slots__ = ()
    _OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Name in another client → what to do here."""

    # Type checkers take a class with __getattr__ for one that has any name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised AttributeError
                return object.__getattribute__(self, name)
            raise _no_attribute(type(self), name)


def _no_attribute(owner: type[MethodHints], name: str) -> AttributeError:
    text = f"{owner.__name__} has no attribute {name}"
    if name.startswith("_") or name in NOTHING_LIKE_IT:
        return AttributeError(text)
    if (instead := owner._OTHER_NAMES.get(name)) is not None:
        return AttributeError(f"{text}; {instead}")
    public = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
    return AttributeError(text + did_you_mean(name, public))
