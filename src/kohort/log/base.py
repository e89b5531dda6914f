"""The log: one abstraction for user topics, group state and cluster metadata.

A log is one partition's append-only sequence of Kafka v2 record batches, stored as they came (base
offset and leader epoch lie outside the CRC and are patched). One node leads it at a time, so the
high watermark is the end of what is durable at the chosen level.

Appending and reading are synchronous. A write to the page cache takes microseconds, and because one
loop thread owns every log, a group decision and its records are atomic. Only waiting is
asynchronous: for more data (`wait_beyond`), or until appended data is as durable as configured
(`durable`).

Implementations: `memory.MemoryDirectory`, `local.LocalDirectory`. Both keep segments and share
`partition.PartitionLog`; they differ only in where the bytes of a segment are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from kohort.log.aborted_index import AbortedTransaction
from kohort.log.backing import Checkpoint
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.partition_directories import PartitionDirectories, StorageIdentity
from kohort.log.problems import Problems
from kohort.log.producer_states import ActiveProducer, VerificationStateEntry
from kohort.log.stores import Records
from kohort.log.timestamp_lookup import Lookup
from kohort.protocol.batches import Buffer, Codec, Rules
from kohort.protocol.compression import MAX_DECOMPRESSED
from kohort.types import Timestamp, TopicPartition

FOREVER = 2**63 - 1
_DAY = 86_400_000


class Appended(NamedTuple):
    """The position of an appended batch."""

    base_offset: int
    last_offset: int
    append_time: int
    """Append time in ms since the epoch if the log stamps batches (LogAppendTime), else -1.

    For a duplicate it is always the stored timestamp, as in Kafka.
    """
    duplicate: bool = False
    """True if an idempotent producer sent this batch before.

    The offsets are then the first ones.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The topic configs that act on a log, by Kafka's names and with Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    """Any of "delete" and "compact"; with neither, no record is ever removed."""
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY
    """Retention in ms; -1 means without limit."""
    retention_bytes: int = -1
    """-1: without limit."""
    delete_retention_ms: int = _DAY
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    log_append_time: bool = False
    """`message.timestamp.type` is LogAppendTime."""
    max_message_bytes: int = 1_048_588
    max_decompressed_bytes: int = MAX_DECOMPRESSED
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3_600_000
    compression: Codec | None = None
    """`compression.type`; None is "producer": batches stay as they came."""
    producer_id_expiration_ms: int = _DAY
    """Time that an idempotent producer is remembered after its last batch.

    A setting of the broker.
    """
    rules: Rules = field(init=False)
    """The settings that `batches.validate` needs."""

    def __post_init__(self) -> None:
        rules = Rules(
            max_message_bytes=self.max_message_bytes,
            max_decompressed_bytes=self.max_decompressed_bytes,
            compacted=self.is_compacted,
            log_append_time=self.log_append_time,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            compression=self.compression,
        )
        object.__setattr__(self, "rules", rules)

    @property
    def is_compacted(self) -> bool:
        """Whether its policy has "compact"."""
        return "compact" in self.cleanup_policy


class LogState(Protocol):
    """The offsets and leader epochs of one partition.

    Methods of a removed log raise KafkaError UNKNOWN_TOPIC_OR_PARTITION, those of a closed one
    NOT_LEADER_OR_FOLLOWER, which clients retry. Its plain properties stay readable.
    """

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads the partition, of every batch that is appended.

        0 where there never was another leader; -1 if the log is not served.
        """
        ...

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """All epochs of its batches; nothing is known of those of a log that is not served."""
        ...

    @property
    def start_offset(self) -> int:
        """First offset that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets: Kafka's log end offset."""
        ...

    @property
    def high_watermark(self) -> int:
        """Offset up to which consumers read: all before it is as durable as the policy asks."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """Offset up to which transactions are decided: readers of committed records read it.

        The first offset of the transactions that are open, or whose marker does not lie below the
        high watermark; at least the start offset. Without any, the high watermark. Raises
        KafkaError and OSError if the log is damaged where it would have to be read for that.
        """
        ...

    def ensure_open(self) -> None:
        """Raise the KafkaError of a removed, closed or refused log, as every other method does.

        A log is refused if it is damaged.
        """
        ...


class LogAppender(LogState, Protocol):
    """Appends to one partition, and its transactions."""

    in_leader_transition: bool
    """True while producers may retry batches that were sent to the previous leader.

    A producer that the log does not know has to begin with its first batch until then. The code
    that opens the log sets it.
    """

    @property
    def config(self) -> LogConfig: ...

    def append(
        self,
        batch: Buffer,
        now: Timestamp,
        *,
        verified: VerificationStateEntry | None = None,
        awaited: int | None = None,
    ) -> Appended:
        """Append one record batch that `batches.validate` accepted or `batches.build` made.

        A transactional batch needs an open transaction of its producer and epoch here, or the guard
        of `begin_verification`, and opens the transaction then. `awaited` is the sequence of an
        earlier batch of its producer that was refused, and which a producer that the log does not
        know has to begin with. Raises KafkaError if the batch is refused, and appends nothing:
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE (not verified, or
        ended since; or a plain batch while a transaction is open), RECORD_LIST_TOO_LARGE (larger
        than a segment), NOT_LEADER_OR_FOLLOWER (see `in_leader_transition`). Raises OSError if the
        storage failed. The log is then as before, or refuses all appends until it is opened again.
        """
        ...

    def append_encoded(self, content: bytes, count: int, now: Timestamp) -> None:
        """Append a batch of `count` encoded records, all with the timestamp `now`.

        It is for the frequent batches that the server itself makes: their header is not parsed
        again. Raises as `append` does.
        """
        ...

    def ongoing_transaction(self, producer_id: int, producer_epoch: int) -> int | None:
        """First offset of the open transaction of that producer and epoch here; None without one.

        Raises KafkaError, OSError.
        """
        ...

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now: Timestamp, *, tv2: bool
    ) -> VerificationStateEntry:
        """Guard for a transactional batch (of that base sequence) without open transaction.

        To be called before the transaction coordinator is asked whether the partition is in the
        transaction (`tv2`: to add it, Produce v12), and given to `append` after its consent. The
        append is refused if the transaction was ended here meanwhile, so no batch gets behind the
        marker of its own transaction. All waiting batches of a producer have one guard. Nothing has
        to be done with one that is not used. Raises KafkaError, OSError.
        """
        ...

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp: int,
    ) -> int:
        """Append the control batch that ends a transaction, whether it has records here or not.

        `timestamp` in ms. Returns its offset. Raises KafkaError, and appends nothing:
        INVALID_PRODUCER_EPOCH (older than the producer's, or with the `transaction_version` 2 not
        newer while its transaction is open), TRANSACTION_COORDINATOR_FENCED (the coordinator epoch
        is older than that of the last marker). Raises OSError as `append` does.
        """
        ...

    @property
    def failed_syncs(self) -> int:
        """Number of syncs that failed: each has taken back what was appended and not durable."""
        ...

    async def durable(self) -> None:
        """Return when all data appended so far is as durable as configured.

        Raises OSError if that failed: what was not durable was taken back then, and appends are
        refused until the disk works again. A caller that lets a turn pass after `append` compares
        `failed_syncs`, too: the sync of its records may have failed, and later ones succeed.
        """
        ...


class LogReader(LogState, Protocol):
    """Reads of one partition, and waiting for more."""

    @property
    def size(self) -> int:
        """Bytes on disk or in memory."""
        ...

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, durable: bool = False
    ) -> bytes:
        """Whole batches from the one that holds or follows `offset`, at most `max_bytes` together.

        With `at_least_one` the first batch is given even if it is larger, so it is empty at the end
        only: that is the end offset, or with `durable` the high watermark. In an event loop it is
        also empty if the records have to be loaded from elsewhere: `loaded` waits for that, and
        `on_append` calls back then. A read does not cross segments. Raises KafkaError
        OFFSET_OUT_OF_RANGE outside [start_offset, end_offset], CorruptLogError where the log is
        damaged, OSError.
        """
        ...

    def fetch(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Records:
        """`read` of durable records; many bytes may stay in their file. Raises as `read` does."""
        ...

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Records, Sequence[AbortedTransaction]]:
        """`fetch` up to the last stable offset, and the aborted transactions of what was read.

        The records of aborted transactions are among those that were read: see
        `protocol.aborted_transactions`. The transactions come in the order of their markers. Fewer
        records are read if they have very many. Raises as `read` does.
        """
        ...

    @property
    def is_loading(self) -> bool:
        """Whether records that were to be read are not in memory yet."""
        ...

    async def loaded(self) -> None:
        """Return when the records that `read` found not to be in memory are, or cannot be read."""
        ...

    def next_offset_after(self, offset: int, size: int) -> int:
        """The offset after the last batch of a `read` of `offset` that gave `size` bytes.

        It is looked up in the index: a read may give a million batches. Where that is not in memory
        it is a lower one, but larger than `offset`.
        """
        ...

    def offset_for_timestamp(self, timestamp: int) -> Lookup:
        """Look for the first record with at least that timestamp (ms).

        Its steps raise KafkaError, CorruptLogError and OSError.
        """
        ...

    def max_timestamp(self) -> Lookup:
        """Look for the first record with the largest timestamp.

        Its steps raise as those of `offset_for_timestamp`.
        """
        ...

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on news for readers until the returned function is called.

        News are records that became readable or were loaded, a trim, and removal.

        It may be called in the middle of `append`, so it must not raise, and nothing long.
        """
        ...

    async def wait_beyond(self, offset: int) -> None:
        """Return as soon as the high watermark is greater than `offset`.

        Raises KafkaError if the log is removed or closed before that.
        """
        ...


class LogMaintenance(LogState, Protocol):
    """Configs of one partition, and the removal of its old records."""

    def configure(self, config: LogConfig) -> None:
        """Act by other configs from now on."""
        ...

    @property
    def checkpoint(self) -> Checkpoint:
        """State that the batches do not contain: it changes when some of them are removed."""
        ...

    def active_producers(self) -> Iterator[ActiveProducer]:
        """The producers that are remembered now. Raises KafkaError, OSError, but not later.

        Each is given in the state that it has by then: very many are read in slices.
        """
        ...

    def trim(self, before: int) -> None:
        """Move the start offset up to `before` (DeleteRecords); a lower one has no effect.

        Raises KafkaError OFFSET_OUT_OF_RANGE beyond the end, OSError.
        """
        ...

    async def durable(self) -> None:
        """Return when a trim is as durable as configured. Raises OSError if it is not."""
        ...

    async def retain(self, now: Timestamp) -> int:
        """Delete due segments, by retention.ms, retention.bytes or start offset; expire producers.

        Returns the number of deleted segments. Many are deleted in slices, oldest first, and their
        files in another thread: appends and reads go on in between. A log that is closed meanwhile
        keeps the others. It costs about a microsecond if none is due. Raises OSError.
        """
        ...

    async def compact(self, now: Timestamp) -> bool:
        """Compact the log if its policy has "compact" and enough of it is dirty; True if it was.

        The work is done in another thread while the log goes on appending and reading. Raises
        OSError, and the log is as before. It costs a few microseconds if nothing is due.
        """
        ...

    def close(self) -> None:
        """Flush and close the files. Idempotent."""
        ...


class LogSync(Protocol):
    """Syncs of a log that was opened with `synced_by_owner`, by its owner."""

    @property
    def syncs_in_order(self) -> bool:
        """Whether appends may be synced together: what of them is stored has no hole."""
        ...

    def unsynced(self) -> list[str]:
        """The files and directories that were written to since this was last called."""
        ...

    def sync(self, names: Iterable[str]) -> None:
        """fsync the files that `unsynced` named, blocking, in any thread. Raises OSError."""
        ...

    def owner_synced(self, end_offset: int) -> None:
        """Note that the owner has synced the records up to `end_offset`."""
        ...

    def owner_sync_failed(self, error: OSError, durable_end: int) -> None:
        """Take back the records from `durable_end` on, and report the failure.

        For a log that was opened with `synced_by_owner`, when the owner's sync failed.
        """
        ...

    def sync_failed(self, error: OSError) -> None:
        """Report that `retry_sync` failed."""
        ...

    def retry_sync(self) -> Callable[[], None]:
        """Function that writes and syncs the end of the log once more, in another thread.

        Both raise OSError if the disk does not work yet.
        """
        ...

    def sync_resumed(self) -> None:
        """Report that `retry_sync` succeeded."""
        ...


class Log(LogAppender, LogReader, LogMaintenance, LogSync, Protocol):
    """One partition of one topic. Code that uses a part of it asks for that part."""


class LogDirectory(Protocol):
    """All logs of a server."""

    problems: Problems
    """The current problems of logs."""
    on_reopened: list[Callable[[Log], None]]
    """Called with each log that `reopen` has opened, which takes the place of the former one."""
    on_written: list[Callable[[float], None]]
    """Called with the seconds that a statement took by which logs in a database were written."""

    @property
    def directories(self) -> StorageIdentity:
        """The cluster that the logs belong to."""
        ...

    @property
    def owned(self) -> "OwnedLogDirectory | None":
        """This directory if one process has it alone; None if nodes share the storage."""
        ...

    def open(
        self, topic_partition: TopicPartition, config: LogConfig, *, leader_epoch: int = 0
    ) -> Log:
        """The log of that partition; the same object as long as it is open.

        One that nodes share was taken before; else it is made if missing. A log that was there and
        is damaged, or cannot be read, is one that raises KafkaError KAFKA_STORAGE_ERROR from every
        method. `leader_epoch` is that in which this node leads it, unless it has a larger one.
        Raises OSError if a new one cannot be made.
        """
        ...

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        """Make `open` of that partition, which is not open, return a log that raises `why`."""
        ...

    async def reopen(self) -> None:
        """Try again to open the logs that could not be read, or that an OSError has ended.

        `on_reopened` learns of each log that takes the place of another. Damaged ones stay refused.
        An append that the disk refused is no problem any more if the disk would take it now.
        """
        ...

    def retire(self, topic_partition: TopicPartition) -> None:
        """Close the log of a deleted partition for good; its records stay until `remove`."""
        ...

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        """Delete the log of a partition of that topic with all its records, open or not.

        Nothing happens to what belongs to another topic. A new one of the same name can be made at
        once. Raises OSError.
        """
        ...

    def names(self) -> Iterable[TopicPartition]:
        """Every log that exists, open or not."""
        ...

    async def retain(self, now: Timestamp) -> None:
        """`retain` every open log, giving way to others in between.

        To be called every `log.retention.check.interval.ms` or more often, also while `compact`
        runs. One log's failure is logged and does not keep the others from being cleaned.
        """
        ...

    async def compact(self, now: Timestamp) -> None:
        """`compact` every open log, one after the other.

        To be called every `log.cleaner.backoff.ms` or more often. One log's failure is logged and
        does not keep the others from being cleaned.
        """
        ...

    def close(self) -> None:
        """Close every log, and release the directory. Idempotent."""
        ...


class OwnedLogDirectory(LogDirectory, Protocol):
    """All logs of a server, in directories that no other process uses."""

    @property
    def directories(self) -> PartitionDirectories:
        """The places of partitions, open or not."""
        ...

    def stop_opening(self) -> None:
        """Make `recover` and `open` raise OpeningStoppedError from now on; thread-safe."""
        ...

    def confirm_start(self) -> None:
        """Say that every log was opened and the server serves. Raises OSError."""
        ...

    def recover(self, logs: Iterable[tuple[TopicPartition, LogConfig, int]]) -> None:
        """Check logs that are opened next, if the machine went down: sooner than one by one.

        Each comes with its leader epoch, as for `open`, which tells what is wrong with a log.
        Raises OpeningStoppedError.
        """
        ...

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        synced_by_owner: bool = False,
        leader_epoch: int = 0,
    ) -> Log:
        """As in `LogDirectory`.

        `synced_by_owner`: the caller syncs what `Log.unsynced` names, whatever the durability of
        the directory; what is replaced in it is synced first.
        """
        ...
