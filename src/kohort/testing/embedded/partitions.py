"""Finds topics and the logs of their partitions."""

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.server.broker import Broker
from kohort.server.replicas import Topic


def find_topic(broker: Broker, name: str) -> Topic:
    """A topic by its name. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    topic = broker.topics.get(name)
    if topic is None:
        raise _unknown(f"there is no topic {name!r}")
    return topic


def find_log(broker: Broker, name: str, partition: int) -> Log:
    """The log of a partition. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    partitions = find_topic(broker, name).partitions
    if not 0 <= partition < len(partitions):
        raise _unknown(f"{name} has the partitions 0 to {len(partitions) - 1}, not {partition}")
    return partitions[partition]


def _unknown(why: str) -> KafkaError:
    return KafkaError(ErrorCode.unknown_topic_or_partition, why)
