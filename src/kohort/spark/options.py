"""Options of `.format("kohort")`: those of Spark's Kafka source and sink, and `groupMode`.

Names are compared without regard to case, as in Spark. An option that is unknown, contradictory, or
without effect in this kind of query raises ConfigError with its name. The results are frozen,
picklable values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias, cast

from kohort.client.config import ClientConfig
from kohort.errors import ConfigError
from kohort.spark import connecting, positions, unsupported_options
from kohort.spark.positions import EARLIEST, LATEST, Positions
from kohort.spark.raw_options import Pairs, RawOptions
from kohort.spark.values import INT32_MAX, number
from kohort.types import TopicPartition

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

_ISOLATIONS: Final = ("read_uncommitted", "read_committed")
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_STARTING: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
"""In the order in which they count, as in Spark."""
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "group.id", "groupMode", "checkpointTopicIds")
_READ: Final = (
    *_SUBSCRIPTIONS, *_STARTING, *_ENDING, *_STREAM_ONLY, "statefulMember",
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "maxInflatedBatchBytes",
)  # fmt: skip
_MEMBER_ONLY: Final = (
    "statefulMember",
    *(f"kafka.{name}" for name in sorted(connecting.MEMBERS)),
)
_NUMBERS: Final = (
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.wait.ms",
)


MEMBER_MAX_OFFSETS: Final = 1_000_000
"""Default of `maxOffsetsPerTrigger` for members.

A sink that takes 25,000 records/s then ends a micro-batch within the 40 s for which a group waits.
"""


class GroupMode(Enum):
    """How a streaming query relates to a consumer group."""

    NONE = "none"
    """Not at all: offsets are in the checkpoint only."""
    REPORTING = "reporting"
    """Positions come from the checkpoint; progress is committed, so that lag tools see it."""
    MEMBER = "member"
    """The query joins the group, and shares the partitions with its other members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSubscription:
    """What is read: exactly one of the three."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where reading starts or ends.

    `everywhere` is EARLIEST or LATEST, `at` an offset for each partition; `timestamp` (ms), or
    `timestamps`, the first record at or after that time. `option` is where it was said, for errors.
    """

    option: str
    everywhere: int | None = None
    at: Positions | None = None
    timestamp: int | None = None
    timestamps: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All options of a reader."""

    kafka: Pairs = field(repr=False)
    subscription: TopicSubscription
    starting: Bound
    ending: Bound
    latest_if_no_match: bool = False
    """`startingOffsetsByTimestampStrategy` is LATEST: no error if a partition has no such record.
    """
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    checkpoint_topic_ids: bool = True
    include_headers: bool = False
    max_inflated_batch_bytes: int | None = None
    """A record batch that is larger after decompression is an error; None: beyond 64 MiB."""
    isolation: Isolation = "read_uncommitted"
    check_crcs: bool = True
    group_id: str | None = None
    group_mode: GroupMode = GroupMode.NONE
    stateful_member: bool = False
    """The user says that a member's state is right, as each of its keys is in one partition."""

    def client_config(self) -> ClientConfig:
        """How to connect."""
        return connecting.client_config(dict(self.kafka))

    def kafka_option(self, name: str) -> str | None:
        """A `kafka.*` option, by its name without the prefix."""
        return dict(self.kafka).get(name)


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Validate the options of a read. Raises ConfigError."""
    given = RawOptions(options)
    given.refuse_unknown(_READ, unsupported_options.SPARK)
    connecting.refuse_unknown(given.kafka, connecting.READS)
    connecting.client_config(given.kafka)
    if streaming:
        given.refuse(_ENDING, "a stream has no end; leave it out, or read a batch")
    else:
        given.refuse(
            _STREAM_ONLY,
            "a batch read belongs to no group and has no triggers; leave it out, or read a stream",
        )
    group_id, mode = _group(given) if streaming else (None, GroupMode.NONE)
    if mode is not GroupMode.MEMBER:
        given.refuse(
            _MEMBER_ONLY,
            "it is for members; leave it out, or name a group in group.id for a stream to join",
        )
    for name in _NUMBERS:
        given.number(name, 0, INT32_MAX)
    return ReadOptions(
        kafka=tuple(sorted(given.kafka.items())),
        subscription=_subscription(given),
        starting=_starting(given, streaming),
        ending=_bound(given, _ENDING, "latest"),
        latest_if_no_match=_latest_if_no_match(given),
        max_offsets_per_trigger=_max_offsets(given, mode),
        min_partitions=given.number("minPartitions"),
        max_records_per_partition=given.number("maxRecordsPerPartition"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        checkpoint_topic_ids=given.flag("checkpointTopicIds", True),
        include_headers=given.flag("includeHeaders", False),
        max_inflated_batch_bytes=given.number("maxInflatedBatchBytes", most=INT32_MAX),
        isolation=cast(
            "Isolation", given.choice("kafka.isolation.level", _ISOLATIONS, _ISOLATIONS[0])
        ),
        check_crcs=given.flag("kafka.check.crcs", True),
        group_id=group_id,
        group_mode=mode,
        stateful_member=given.flag("statefulMember", False),
    )


def _max_offsets(given: RawOptions, mode: GroupMode) -> int | None:
    default = MEMBER_MAX_OFFSETS if mode is GroupMode.MEMBER else None
    return given.number("maxOffsetsPerTrigger") or default


def _subscription(given: RawOptions) -> TopicSubscription:
    found = given.among(_SUBSCRIPTIONS)
    if len(found) != 1:
        which = f"{' and '.join(found)} contradict each other" if found else "none is given"
        raise ConfigError(
            f"one of the options {', '.join(_SUBSCRIPTIONS)} says what to read; {which}"
        )
    option, text = found[0], given.get(found[0]) or ""
    if option == "assign":
        return TopicSubscription(partitions=positions.parse_assignment(option, text))
    if option == "subscribePattern":
        return TopicSubscription(pattern=_pattern(text))
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ConfigError("option subscribe names no topic; names are separated by commas")
    return TopicSubscription(topics=topics)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"option subscribePattern is no regular expression: {text!r} ({error})"
        ) from None
    if not text:
        raise ConfigError(
            "option subscribePattern is empty, which matches no topic; .* matches all"
        )
    return text


def _bound(given: RawOptions, options: tuple[str, ...], default: str) -> Bound:
    """The first of the options counts; two would be a contradiction that Spark decides silently."""
    found = given.among(options)
    if len(found) > 1:
        raise ConfigError(f"options {' and '.join(found)} contradict each other; give one")
    option = found[0] if found else options[-1]
    text = (given.get(option) or "" if found else default).strip()
    if option.endswith("OffsetsByTimestamp"):
        return Bound(option=option, timestamps=positions.parse(option, text, least=0))
    if option.endswith("Timestamp"):
        return Bound(option=option, timestamp=number(option, text))
    is_start = option.startswith("starting")
    match text.lower():
        case "latest":
            return Bound(option=option, everywhere=LATEST)
        case "earliest":
            if not is_start:
                raise ConfigError(
                    "option endingOffsets is earliest: a read would end before its first record"
                )
            return Bound(option=option, everywhere=EARLIEST)
    return Bound(
        option=option, at=positions.parse(option, text, least=EARLIEST if is_start else LATEST)
    )


def _starting(given: RawOptions, streaming: bool) -> Bound:
    bound = _bound(given, _STARTING, "latest" if streaming else "earliest")
    if not streaming and (bound.everywhere == LATEST or LATEST in (bound.at or {}).values()):
        raise ConfigError(
            "option startingOffsets is latest: a batch read would start at its end; it "
            "is earliest, or JSON"
        )
    return bound


def _latest_if_no_match(given: RawOptions) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    if given.get(name) is not None and not given.among(_STARTING[:2]):
        raise ConfigError(
            f"option {name} has no effect without {' or '.join(_STARTING[:2])}; leave it out"
        )
    return given.choice(name, ("error", "latest"), "error") == "latest"


def _group(given: RawOptions) -> tuple[str | None, GroupMode]:
    names = [
        each for each in (given.get("group.id"), given.get("kafka.group.id")) if each is not None
    ]
    if len(set(names)) > 1:
        raise ConfigError("options group.id and kafka.group.id contradict each other; give one")
    # kafka.group.id alone is the name that brokers authorize, as for Spark's source.
    default = GroupMode.NONE if given.get("group.id") is None else GroupMode.MEMBER
    mode = GroupMode(
        given.choice("groupMode", tuple(each.value for each in GroupMode), default.value)
    )
    if mode is not GroupMode.NONE and not (names and names[0]):
        raise ConfigError(
            f"option groupMode is {mode.value}: it needs the group's name in group.id"
        )
    if mode is GroupMode.MEMBER and given.get("assign") is not None:
        raise ConfigError(
            "option assign: a member is assigned partitions by its group; subscribe, or set "
            "groupMode"
        )
    return (names[0] if names else None), mode
