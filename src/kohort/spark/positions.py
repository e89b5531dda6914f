"""Offsets in Spark's JSON form, as in `{"orders": {"0": 23, "1": -1}}`.

They occur in options, checkpoints and progress reports. In options -2 stands for the first record
and -1 for the end. Spark compares offsets as text, so they are sorted. Otherwise every trigger
would see a change, and run an empty batch.

An offset in a checkpoint also has keys that are not names of topics: `@begin` of members and of a
query's first micro-batch, and `@ids` with the id of each topic. The id shows that a topic was
recreated:

    {"@ids": {"orders": "0iXbZ2vaSs6qXyLMBX0l7w"}, "orders": {"0": 60}}
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.errors import ConfigError
from kohort.types import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
BEGIN: Final = "@begin"
IDS: Final = "@ids"
GROUP: Final = "@group"
"""Key of a member's membership, in the latest offset that it reports."""
_AGAIN: Final = "@again"
_NO_TOPICS: Final = (BEGIN, IDS, GROUP, _AGAIN)

Positions: TypeAlias = dict[TopicPartition, int]
TopicIds: TypeAlias = dict[str, str]
"""Ids by topic, in the form of Kafka's tools; without topics whose ids are unknown."""
SparkOffset: TypeAlias = dict[str, dict[str, Any]]


def to_spark(
    positions: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None
) -> SparkOffset:
    """Positions in the form of Spark's checkpoint."""
    offset: SparkOffset = {IDS: dict(sorted(ids.items()))} if ids else {}
    for tp in sorted(positions):
        offset.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp]
    return offset


def from_spark(offset: SparkOffset | None) -> Positions:
    """Positions of an offset of Spark's checkpoint."""
    return {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in (offset or {}).items()
        if topic not in _NO_TOPICS
        for partition, position in partitions.items()
    }


def batch_start(offset: Any) -> Positions:
    """Start offsets of the micro-batch up to `offset` that are not the ends of the last one."""
    return from_spark(offset.get(BEGIN))


def topic_ids(offset: SparkOffset | None) -> TopicIds:
    """The topics' ids when `offset` was planned; older checkpoints and Spark's own have none."""
    return (offset or {}).get(IDS, {})


def topic_id(uuid: UUID | None) -> str | None:
    """A topic's id as Kafka's tools show it."""
    return None if uuid is None else urlsafe_b64encode(uuid.bytes)[:22].decode()


def recreated(before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
    """The topics that have another id `now`; one without an id counts as the same."""
    return frozenset(topic for topic in before.keys() & now.keys() if before[topic] != now[topic])


def without_topics(positions: Mapping[TopicPartition, int], topics: Collection[str]) -> Positions:
    """`positions` without partitions of `topics`."""
    return {tp: offset for tp, offset in positions.items() if tp.topic not in topics}


def offset_of(positions: Positions, begin: Positions, ids: Mapping[str, str]) -> SparkOffset:
    """End of a micro-batch in Spark's form; `begin`: starts that are not ends of the last one."""
    return ({BEGIN: to_spark(begin)} if begin else {}) | to_spark(positions, ids)


def made_distinct(offset: SparkOffset, before: SparkOffset) -> SparkOffset:
    """`offset`, in another form if it equals `before`: Spark skips a micro-batch then."""
    return {_AGAIN: {}} | offset if offset == before else offset


def parse(option: str, text: str, *, least: int) -> Positions:
    """Parse an option: topics, partitions, and numbers of at least `least`. Raises ConfigError.

    It may be an offset of a checkpoint or a progress report.
    """
    example = '{"orders": {"0": 23, "1": -1}}'
    try:
        offsets = json.loads(text)
        positions = {
            TopicPartition(topic, int(partition)): _whole(value)
            for topic, partitions in offsets.items()
            if topic not in _NO_TOPICS
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"option {option} is not JSON such as {example}: {text!r} ({error})"
        ) from None
    for tp, value in positions.items():
        if value < least or tp.partition < 0:
            raise ConfigError(
                f"option {option}: {value} of {tp} is out of bounds; the least is {least}"
            )
    return positions


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"orders": [0, 1]}`. Raises ConfigError."""
    try:
        assignment = json.loads(text)
        partitions = {
            TopicPartition(topic, _whole(number))
            for topic, some in assignment.items()
            for number in some
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f'option {option} is not JSON such as {{"orders": [0, 1]}}: {text!r} ({error})'
        ) from None
    if not partitions or min(tp.partition for tp in partitions) < 0:
        raise ConfigError(f"option {option} names no partition, or one below 0: {text!r}")
    return tuple(sorted(partitions))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def validate_partitions(
    option: str, named: Iterable[TopicPartition], existing: Iterable[TopicPartition]
) -> None:
    """Raise ConfigError unless `named` are exactly the read partitions, as in Spark's source."""
    named, existing = set(named), set(existing)
    if missing := sorted(existing - named):
        raise ConfigError(
            f"option {option} has no offset for {_listed(missing)}; it has to have one "
            "for each partition"
        )
    if unknown := sorted(named - existing):
        raise ConfigError(
            f"option {option} names {_listed(unknown)}, which is not read or does not exist"
        )


def _listed(partitions: list[TopicPartition]) -> str:
    more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return ", ".join(map(str, partitions[:5])) + more
