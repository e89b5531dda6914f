"""Options of `.format("kohort")`: those of Spark's Kafka source and sink, and `groupMode`.

Names are compared without regard to case, as in Spark. Options that are unknown or contradictory
raise one RefusedOptionsError, which names all of them. The results are frozen, picklable values.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

from kohort.client.config import ClientConfig
from kohort.client.properties import OptionErrors, RefusedOptionsError
from kohort.errors import ConfigError, fresh
from kohort.spark import kafka_options, positions
from kohort.spark.option_values import INT32_MAX, PREFIX, duration_ms, number
from kohort.spark.positions import EARLIEST, LATEST, Positions
from kohort.spark.raw_options import SECURITY, Pairs, RawOptions
from kohort.types import TopicPartition

GroupProtocol: TypeAlias = Literal["classic", "consumer", "auto"]
Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

_PROTOCOLS: Final[tuple[GroupProtocol, ...]] = ("classic", "consumer", "auto")
_ISOLATIONS: Final = ("read_uncommitted", "read_committed")
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_STARTING: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
"""In the order in which they count, as in Spark."""
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_STREAM_ONLY: Final = ("group.id", "groupMode", "groupProtocol", "checkpointTopicIds")
_BROKER_ONLY: Final = (
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs", SECURITY
)  # fmt: skip
"""Options that do nothing in a read of files, as most `kafka.*`."""
_OF_FILES: Final = frozenset(("check.crcs", "isolation.level", "bootstrap.servers"))
"""`kafka.*` options that are used or refused in a read of files."""
_WITHOUT_EFFECT: Final = {
    "groupIdPrefix": "a read without group.id belongs to no group",
    "topic": "it is for writes",
    "includeTimestamp": "it is for writes",
}
"""Options that do nothing in a read, and why."""
READ: Final = (
    *_SUBSCRIPTIONS, *_STARTING, *_ENDING, *_TRIGGERS, *_STREAM_ONLY, "statefulMember",
    "transactionalSink",
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "includeBatchFields", "maxInflatedBatchBytes",
    "path", "damagedBatches", "readRanges",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", SECURITY,
)  # fmt: skip
_COUNTS: Final = {
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", 1),
    "minOffsetsPerTrigger": ("min_offsets_per_trigger", 1),
    "minPartitions": ("min_partitions", 1),
    "maxRecordsPerPartition": ("max_records_per_partition", 1),
    "kafkaConsumer.pollTimeoutMs": ("poll_timeout_ms", 1),
    "fetchOffset.numRetries": ("offset_attempts", 1),
    "fetchOffset.retryIntervalMs": ("offset_retry_interval_ms", 0),
}
"""Option → field and least value."""
MAX_TRIGGER_DELAY: Final = "15m"
"""Default of `maxTriggerDelay`, as in Spark."""
_NUMBERS: Final = (
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.wait.ms",
)


MEMBER_MAX_OFFSETS: Final = 1_000_000
"""Default of `maxOffsetsPerTrigger` for members.

A sink that takes 5,000 records/s then ends a micro-batch in the 200 s for which a group waits.
"""


class GroupMode(Enum):
    """How a streaming query relates to a consumer group."""

    NONE = "none"
    """No group: offsets are in the checkpoint only."""
    REPORTING = "reporting"
    """Positions come from the checkpoint; progress is committed, so that lag tools see it."""
    MEMBER = "member"
    """The query joins the group, and shares the partitions with its other members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSubscription:
    """The topics to read: exactly one of the fields is set, or none if files have one topic."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Start or end offsets of a read, in one of four forms.

    `everywhere`: EARLIEST or LATEST. `offsets`: one of each partition. `timestamp` (ms), or
    `timestamps` of each partition: the first record at or after that time. `option`: the name of
    the option, for errors.
    """

    option: str
    everywhere: int | None = None
    offsets: Positions | None = None
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
    min_offsets_per_trigger: int | None = None
    """A trigger with fewer records waits, for at most `max_trigger_delay_ms`."""
    max_trigger_delay_ms: int = 0
    poll_timeout_ms: int | None = None
    """`kafkaConsumer.pollTimeoutMs`: time limit of a fetch with its retries."""
    offset_attempts: int = 1
    """`fetchOffset.numRetries`: attempts of a query for offsets."""
    offset_retry_interval_ms: int = 1_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    checkpoint_topic_ids: bool = True
    include_headers: bool = False
    include_batch_fields: bool = False
    """Add columns of the record's batch, and rows for control records."""
    paths: tuple[str, ...] = field(default=(), repr=False)
    """Data directories, directories of partitions or segment files to read instead of a cluster."""
    damaged_rows: bool = False
    """Damage becomes rows instead of an error or data loss."""
    read_ranges: bool = False
    """Rows are the offset ranges to read instead of their records."""
    max_inflated_batch_bytes: int | None = None
    """Largest size of a record batch after decompression; None: 64 MiB."""
    isolation: Isolation = "read_uncommitted"
    check_crcs: bool = True
    group_id: str | None = None
    group_mode: GroupMode = GroupMode.NONE
    group_protocol: GroupProtocol = "classic"
    """The protocol by which a member joins its group."""
    stateful_member: bool = False
    """The user confirms that the state of a member is correct: each key is in one partition."""
    transactional_sink: str | None = None
    """The transactional id of the sink that commits a member's offsets; None: the source does."""
    without_effect: tuple[tuple[str, str], ...] = ()
    """Accepted options that do nothing in this query, and why."""

    def client_config(self) -> ClientConfig:
        """The configuration of connections."""
        return kafka_options.client_config(dict(self.kafka))

    def kafka_option(self, name: str) -> str | None:
        """A `kafka.*` option, by its name without the prefix."""
        return dict(self.kafka).get(name)


def parse_either_read(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read that may become a batch or a stream: Spark decides later.

    `without_effect` has the options that do nothing in either. Raises RefusedOptionsError if the
    options are valid for neither, with the errors of the one that has fewer.
    """
    parsed: list[ReadOptions] = []
    refused: list[RefusedOptionsError] = []
    for streaming in (False, True):
        try:
            parsed.append(parse_read(options, streaming=streaming))
        except RefusedOptionsError as error:
            refused.append(error.with_traceback(None))
    if not parsed:
        raise fresh(min(refused, key=lambda error: len(error.texts)))
    common = dict(parsed[0].without_effect).items() & dict(parsed[-1].without_effect).items()
    return replace(parsed[-1], without_effect=tuple(sorted(common)))


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Validate the options of a read. Raises RefusedOptionsError, which names all that is wrong."""
    raw, refusals = RawOptions(options), OptionErrors()
    refusals.add(_unknown(raw, streaming))
    no_paths: tuple[str, ...] = ()
    paths = refusals.of(lambda: _paths(raw), no_paths)
    if raw.get("path") is None:
        refusals.of(lambda: kafka_options.client_config(raw.kafka), None)
    else:
        refusals.add(_refused_of_files(raw, streaming))
    no_group: tuple[str | None, GroupMode] = (None, GroupMode.NONE)
    group_id, mode = refusals.of(lambda: _group(raw), no_group) if streaming else no_group
    read_options = ReadOptions(
        kafka=tuple(sorted(raw.kafka.items())),
        subscription=refusals.of(lambda: _subscription(raw), TopicSubscription()),
        starting=refusals.of(lambda: _starting(raw, streaming), Bound(option="")),
        ending=refusals.of(lambda: _bound(raw, _ENDING, "latest"), Bound(option="")),
        latest_if_no_match=refusals.of(lambda: _latest_if_no_match(raw), False),
        max_trigger_delay_ms=refusals.of(lambda: _trigger_delay_ms(raw), 0),
        fail_on_data_loss=refusals.of(lambda: raw.flag("failOnDataLoss", True), True),
        checkpoint_topic_ids=refusals.of(lambda: raw.flag("checkpointTopicIds", True), True),
        include_headers=refusals.of(lambda: raw.flag("includeHeaders", False), False),
        include_batch_fields=refusals.of(lambda: raw.flag("includeBatchFields", False), False),
        paths=paths,
        damaged_rows=refusals.of(lambda: _damaged_rows(raw), False),
        read_ranges=refusals.of(lambda: raw.flag("readRanges", False), False),
        max_inflated_batch_bytes=refusals.of(lambda: _max_inflated(raw), None),
        isolation=refusals.of(lambda: _isolation(raw), "read_uncommitted"),
        check_crcs=refusals.of(lambda: raw.flag("kafka.check.crcs", True), True),
        group_id=group_id,
        group_mode=mode,
        group_protocol=refusals.of(lambda: _group_protocol(raw, mode), _PROTOCOLS[0]),
        stateful_member=refusals.of(lambda: _stateful_member(raw, mode), False),
        transactional_sink=refusals.of(lambda: _transactional_sink(raw, mode), None),
        without_effect=tuple(sorted(_without_effect(raw, streaming, mode).items())),
        **_counts(raw, refusals, mode),
    )
    refusals.end()
    return read_options


def _unknown(raw: RawOptions, streaming: bool) -> Iterator[str]:
    """The refusals of options by their names alone."""
    yield from raw.unknown((*READ, *_WITHOUT_EFFECT))
    yield from kafka_options.unknown(raw.kafka, kafka_options.READS)
    if streaming:
        yield from raw.refused(_ENDING, "a stream has no end; leave it out, or read a batch")
    else:
        yield from raw.refused(
            _STREAM_ONLY, "a batch has neither group nor checkpoint; leave it out, or read a stream"
        )


def _counts(raw: RawOptions, refusals: OptionErrors, mode: GroupMode) -> dict[str, Any]:
    """The fields of the options that are numbers."""
    for name in _NUMBERS:
        refusals.of(partial(raw.number, name, 0, INT32_MAX), None)
    counts = {
        field: number
        for name, (field, least) in _COUNTS.items()
        if (number := refusals.of(partial(raw.number, name, least), None)) is not None
    }
    most, least = counts.get("max_offsets_per_trigger"), counts.get("min_offsets_per_trigger")
    if most is not None and least is not None and most < least:
        refusals.add([
            f"option maxOffsetsPerTrigger is {most}, less than minOffsetsPerTrigger, {least}"
        ])  # fmt: skip
    if mode is GroupMode.MEMBER and most is None:
        counts["max_offsets_per_trigger"] = max(MEMBER_MAX_OFFSETS, least or 0)
    return counts


def _paths(raw: RawOptions) -> tuple[str, ...]:
    text = raw.get("path")
    paths = tuple(dict.fromkeys(path.strip() for path in (text or "").split(",") if path.strip()))
    if text is not None and not paths:
        raise ConfigError("option path names no directory; several are separated by commas")
    return paths


def _refused_of_files(raw: RawOptions, streaming: bool) -> Iterator[str]:
    """The refusals of options that a read of `path` cannot have."""
    if streaming:
        yield "option path: a stream reads from brokers; leave it out, or read a batch"
    if "bootstrap.servers" in raw.kafka:
        yield (
            "options path and kafka.bootstrap.servers contradict each other; give path to read "
            "files, kafka.bootstrap.servers to read from brokers"
        )
    if raw.kafka.get("isolation.level", "").strip().lower() == "read_committed":
        yield (
            "option kafka.isolation.level is read_committed: the files of a log do not tell which "
            "transactions will be aborted; leave it out, and see the column control of "
            "includeBatchFields"
        )
    yield from raw.refused(("readRanges",), "it is for reads from brokers; leave it out")


def _damaged_rows(raw: RawOptions) -> bool:
    is_rows = raw.choice("damagedBatches", ("loss", "rows"), "loss") == "rows"
    if is_rows and not raw.flag("includeBatchFields", False):
        raise ConfigError(
            "option damagedBatches is rows: their column control needs includeBatchFields = true"
        )
    if is_rows and raw.get("path") is None and _isolation(raw) != "read_uncommitted":
        raise ConfigError(
            "option damagedBatches is rows: a damaged batch may be the end of a transaction; leave "
            "out kafka.isolation.level"
        )
    return is_rows


def _max_inflated(raw: RawOptions) -> int | None:
    return raw.number("maxInflatedBatchBytes", most=INT32_MAX)


def _stateful_member(raw: RawOptions, mode: GroupMode) -> bool:
    is_stateful = raw.flag("statefulMember", False)
    if raw.get("statefulMember") is not None and mode is not GroupMode.MEMBER:
        raise ConfigError(
            "option statefulMember: it is for members; leave it out, or name a group in group.id "
            "for a stream to join"
        )
    return is_stateful


def _group_protocol(raw: RawOptions, mode: GroupMode) -> GroupProtocol:
    if raw.get("groupProtocol") is not None and mode is not GroupMode.MEMBER:
        raise ConfigError(
            "option groupProtocol: only members have one; leave it out, or set group.id and "
            "groupMode to member"
        )
    return cast(GroupProtocol, raw.choice("groupProtocol", _PROTOCOLS, _PROTOCOLS[0]))


def _transactional_sink(raw: RawOptions, mode: GroupMode) -> str | None:
    transactional_id = raw.get("transactionalSink")
    if transactional_id is None:
        return None
    if mode is not GroupMode.MEMBER or raw.flag("statefulMember", False):
        raise ConfigError(
            "option transactionalSink: it is for members without state; leave it out, or name a "
            "group in group.id for a stream to join, without statefulMember"
        )
    if not transactional_id:
        raise ConfigError(
            "option transactionalSink is empty; it is the kafka.transactional.id of the sink"
        )
    return transactional_id


def _isolation(raw: RawOptions) -> Isolation:
    return cast("Isolation", raw.choice("kafka.isolation.level", _ISOLATIONS, _ISOLATIONS[0]))


def _trigger_delay_ms(raw: RawOptions) -> int:
    text = raw.get("maxTriggerDelay")
    return duration_ms("maxTriggerDelay", MAX_TRIGGER_DELAY if text is None else text)


def _without_effect(raw: RawOptions, streaming: bool, mode: GroupMode) -> dict[str, str]:
    reasons = kafka_options.without_effect(raw.kafka, kafka_options.READS)
    reasons |= {name: _WITHOUT_EFFECT[name] for name in raw.among(tuple(_WITHOUT_EFFECT))}
    if raw.get("path") is not None:
        kafka = (PREFIX + name for name in raw.kafka.keys() - _OF_FILES)
        ignored = (*raw.among(_BROKER_ONLY), *kafka)
        return reasons | dict.fromkeys(ignored, "files are read, and no broker")
    if not streaming:
        reasons |= dict.fromkeys(raw.among(_TRIGGERS), "a batch read has no triggers")
    elif raw.get("maxTriggerDelay") is not None and raw.get("minOffsetsPerTrigger") is None:
        reasons["maxTriggerDelay"] = "it belongs to minOffsetsPerTrigger"
    if mode is not GroupMode.MEMBER:
        members = kafka_options.MEMBERS & raw.kafka.keys()
        reasons |= dict.fromkeys(
            (PREFIX + name for name in members), "it is for members of a group"
        )
    return reasons


def _subscription(raw: RawOptions) -> TopicSubscription:
    names = raw.among(_SUBSCRIPTIONS)
    if not names and raw.get("path") is not None:
        return TopicSubscription()
    if len(names) != 1:
        which = f"{' and '.join(names)} contradict each other" if names else "none is given"
        raise ConfigError(
            f"exactly one of the options {', '.join(_SUBSCRIPTIONS)} has to be set; {which}"
        )
    option, text = names[0], raw.get(names[0]) or ""
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


def _bound(raw: RawOptions, options: tuple[str, ...], default: str) -> Bound:
    """The bound that one of the options sets. Raises ConfigError for two, unlike Spark."""
    names = raw.among(options)
    if len(names) > 1:
        raise ConfigError(f"options {' and '.join(names)} contradict each other; give one")
    option = names[0] if names else options[-1]
    text = (raw.get(option) or "" if names else default).strip()
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
        option=option, offsets=positions.parse(option, text, least=EARLIEST if is_start else LATEST)
    )


def _starting(raw: RawOptions, streaming: bool) -> Bound:
    bound = _bound(raw, _STARTING, "latest" if streaming else "earliest")
    if not streaming and (bound.everywhere == LATEST or LATEST in (bound.offsets or {}).values()):
        raise ConfigError(
            "option startingOffsets is latest: a batch read would start at its end; it "
            "is earliest, or JSON"
        )
    return bound


def _latest_if_no_match(raw: RawOptions) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    if raw.get(name) is not None and not raw.among(_STARTING[:2]):
        raise ConfigError(
            f"option {name} has no effect without {' or '.join(_STARTING[:2])}; leave it out"
        )
    return raw.choice(name, ("error", "latest"), "error") == "latest"


def _group(raw: RawOptions) -> tuple[str | None, GroupMode]:
    names = [name for name in (raw.get("group.id"), raw.get("kafka.group.id")) if name is not None]
    if len(set(names)) > 1:
        raise ConfigError("options group.id and kafka.group.id contradict each other; give one")
    # kafka.group.id alone is the name that brokers authorize, as for Spark's source.
    default = GroupMode.NONE if raw.get("group.id") is None else GroupMode.MEMBER
    mode = GroupMode(
        raw.choice("groupMode", tuple(mode.value for mode in GroupMode), default.value)
    )
    if mode is not GroupMode.NONE and not (names and names[0]):
        raise ConfigError(
            f"option groupMode is {mode.value}: it needs the group's name in group.id"
        )
    if mode is GroupMode.MEMBER and raw.get("assign") is not None:
        raise ConfigError(
            "option assign: a member is assigned partitions by its group; subscribe, or set "
            "groupMode"
        )
    return (names[0] if names else None), mode
