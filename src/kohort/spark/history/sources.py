"""Where records come from: a broker, segment files, or a DataFrame of archived records.

The driver asks a source for the offsets of its log partitions. Tasks get a picklable reader.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kohort.client.errors import GaveUpError
from kohort.errors import ConfigError, ErrorCode, KohortError, unless_error
from kohort.history.broker_configs import options_of_configs
from kohort.history.group_fold import GroupOptions
from kohort.history_files.folding import LogRange
from kohort.spark import background, workers
from kohort.spark.offset_queries import OffsetQueries, validate_named
from kohort.spark.option_values import PREFIX
from kohort.spark.options import ReadOptions, parse_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.raw_options import Pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kohort.segments import Replica

TOPIC: Final = "__consumer_offsets"
BOOTSTRAP: Final = "bootstrap.servers"
MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Largest size of a batch after decompression; a larger one is damage.

Coordinators write batches of at most `max.message.bytes`, by default 1 MiB. Records without a key
and a value take 7 bytes there, and ten times as much in memory: a batch of 6 kB could need 1 GB.
"""
_log: Final = logging.getLogger("kohort.history")

Source: TypeAlias = "str | Mapping[str, str] | DataFrame"
"""Bootstrap servers, a path of segment files, `kafka.*` options, or archived records."""


class Offsets(NamedTuple):
    """What a log has, by log partition."""

    starts: dict[int, int]
    ends: dict[int, int]
    cluster: str | None
    topic_id: str | None
    is_archive: bool = False
    """Whether they are those of an archive, which may lack records that the log had."""
    damaged: frozenset[int] = frozenset()
    """Log partitions whose files are damaged at their end, and may have more records."""


class RecordReader(Protocol):
    """Reads ranges in tasks; pickled by Spark."""

    def __call__(self, log_range: LogRange) -> Iterator[Any]:
        """The records of a range in Arrow record batches, in ascending offsets."""


class Log(Protocol):
    """The log of groups of a broker or in files."""

    def offsets(self) -> Offsets:
        """Asks for the present offsets. Raises KohortError."""

    def group_options(self) -> GroupOptions:
        """What no record has, such as how long offsets are kept."""

    def topic_names(self) -> dict[str, str]:
        """Topic id → name, for topics that no record names. Raises KohortError."""

    def reader(self) -> RecordReader:
        """To be called after `offsets`."""


def is_path(source: str) -> bool:
    """Whether a source names files, and not bootstrap servers."""
    first = source.partition(",")[0]
    if os.path.exists(first):
        return True
    if "://" in first:  # a listener has a port: SASL_SSL://broker:9092
        return not first.rpartition(":")[2].isdigit()
    return "/" in first


def log_of(source: "str | Mapping[str, str]") -> Log:
    """Raises ConfigError."""
    if isinstance(source, str):
        if is_path(source):
            return FileLog(paths_of(source))
        source = {BOOTSTRAP: source}
    return BrokerLog(broker_options(source))


def paths_of(text: str) -> tuple[str, ...]:
    """The paths of a text that has several with commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def broker_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Options of `.format("kohort")` that read the log of groups of a broker.

    `kafka`: `kafka.*` options, with or without the prefix.
    """
    return {PREFIX + name.removeprefix(PREFIX): value for name, value in kafka.items()} | {
        "subscribe": TOPIC,
        "includeBatchFields": "true",
        # What compaction and retention removed is in the coverage, and no error; so is damage.
        "failOnDataLoss": "false",
        "damagedBatches": "rows",
        "maxInflatedBatchBytes": str(MAX_BATCH_BYTES),
    }


class BrokerLog:
    """The log of a broker."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_read(options, streaming=False)
        self._topic_id: str | None = None

    @property
    def kafka(self) -> Pairs:
        """Its `kafka.*` options."""
        return self._options.kafka

    def offsets(self) -> Offsets:
        queries = OffsetQueries(self._options)
        partitions = queries.partitions()
        if not partitions:
            raise KohortError(f"{TOPIC} does not exist: this cluster has never had a group")
        validate_named(self._options, partitions)
        self._topic_id = next(iter(partitions.values()))
        starts, ends = queries.earliest(partitions), queries.latest(partitions)
        return Offsets(
            {tp.partition: offset for tp, offset in starts.items()},
            {tp.partition: offset for tp, offset in ends.items()},
            background.run(self._cluster_id()),
            self._topic_id,
        )

    def starts(self) -> dict[int, int]:
        """The first offsets as of now: retention moves them. Raises KohortError."""
        queries = OffsetQueries(self._options)
        starts = queries.earliest(queries.partitions())
        return {tp.partition: offset for tp, offset in starts.items()}

    async def _cluster_id(self) -> str | None:
        cluster = await background.cluster(self._options.kafka)
        return (await cluster.request_metadata((TOPIC,))).cluster_id

    def group_options(self) -> GroupOptions:
        """From the configs of a broker, if this user may see them."""
        try:
            configs = background.run(self._configs())
        except KohortError as error:
            _log.warning("configs of brokers cannot be read, Kafka's defaults are taken: %s", error)
            return GroupOptions()
        return options_of_configs(configs)

    def topic_names(self) -> dict[str, str]:
        """From the metadata of the topics that this user may see."""
        return background.run(self._names())

    async def _names(self) -> dict[str, str]:
        cluster = await background.cluster(self._options.kafka)
        topics = (await cluster.request_metadata(None)).topics
        return {str(topic.id): topic.name for topic in topics.values() if topic.id}

    async def _configs(self) -> dict[str, str | None]:
        from kohort.client.admin import Admin, ConfigResource

        cluster = await background.cluster(self._options.kafka)
        await cluster.request_metadata((TOPIC,))
        resource = ConfigResource("broker", str(min(cluster.brokers)))
        entries = unless_error((await Admin(cluster).describe_configs([resource]))[resource])
        return {name: entry.value for name, entry in entries.items()}

    def reader(self) -> RecordReader:
        return BrokerReader(self._options, self._topic_id)


@dataclass(frozen=True, slots=True)
class BrokerReader:
    """Fetches from the leaders. A damaged batch becomes a row with an error.

    Raises KohortError where its end is unknown.
    """

    options: ReadOptions
    topic_id: str | None

    def __call__(self, log_range: LogRange) -> Iterator[Any]:
        from kohort.spark import fetching
        from kohort.spark.damaged_responses import DamagedLogError

        number = log_range.log_partition
        part = OffsetRange(TOPIC, number, log_range.start, log_range.end, self.topic_id)
        try:
            yield from fetching.read(self.options, part)
        except (DamagedLogError, GaveUpError) as error:
            if isinstance(error, GaveUpError) and error.code is not ErrorCode.corrupt_message:
                raise
            raise KohortError(
                f"{error}. The log is damaged there, and its broker does not tell where the next "
                "batch begins: build from the segment files of the leader into the same directory, "
                "which goes on behind the damage, and then from the broker again"
            ) from error


class FileLog:
    """The segment files of a broker, running or not, or a copy of them."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    @cached_property
    def _replicas(self) -> "dict[int, Replica]":
        from kohort.segments import find_replicas, longest

        found = find_replicas(self._paths, lambda tp: tp.topic == TOPIC)
        if not found:
            raise ConfigError(
                f"{', '.join(self._paths)}: there is no directory {TOPIC}-N with segment files; "
                "the path is a data directory of a broker, or the directory of a partition"
            )
        _validate_topic(replica for replicas in found.values() for replica in replicas)
        return {tp.partition: longest(replicas) for tp, replicas in found.items()}

    def offsets(self) -> Offsets:
        replicas = self._replicas
        ends = {number: replica.log_end() for number, replica in replicas.items()}
        for number, end in ends.items():
            if end.followed < end.offset:
                _log.warning(
                    "log partition %d: its last batch ends at offset %d, and does not follow "
                    "offset %d: it is read when another one is behind it, as its offset may be "
                    "damaged",
                    number, end.offset, end.followed,
                )  # fmt: skip
        return Offsets(
            {number: replica.start() for number, replica in replicas.items()},
            {number: end.followed for number, end in ends.items()},
            None,
            next(iter(replicas.values())).topic_id(),
            damaged=frozenset(number for number, end in ends.items() if end.may_have_more),
        )

    def group_options(self) -> GroupOptions:
        """Kafka's defaults: files do not tell."""
        return GroupOptions()

    def topic_names(self) -> dict[str, str]:
        """Of the topics that have partitions in the same directories."""
        from kohort.segments import find_replicas

        topic_ids: dict[str, UUID] = {}
        for tp, replicas in find_replicas(self._paths).items():
            if tp.topic not in topic_ids and (topic_id := replicas[0].topic_uuid()) is not None:
                topic_ids[tp.topic] = topic_id
        return {str(topic_id): name for name, topic_id in topic_ids.items()}

    def reader(self) -> RecordReader:
        return FileReader(self._replicas)


def _validate_topic(replicas: "Iterable[Replica]") -> None:
    """Raise ConfigError for directories of several clusters: each has a topic id of its own."""
    first: dict[str, Replica] = {}
    for replica in replicas:
        if (topic_id := replica.topic_id()) is not None:
            first.setdefault(topic_id, replica)
    if len(first) > 1:
        (one, path), (other, other_path), *_ = first.items()
        raise ConfigError(
            f"{path} has the topic id {one}, and {other_path} has {other}: they are of several "
            "clusters, or of a topic that was recreated; name the directories of one"
        )


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads segment files. Damage becomes a row with an error."""

    replicas: "Mapping[int, Replica]"

    def __call__(self, log_range: LogRange) -> Iterator[Any]:
        from kohort.segments import ReadSettings, read

        workers.settle()
        settings = ReadSettings(
            include_batch_fields=True,
            damaged_rows=True,
            max_inflated=MAX_BATCH_BYTES,
            on_loss=_log.warning,
        )
        replica = self.replicas[log_range.log_partition]
        yield from read(replica, log_range.start, log_range.end, settings)
