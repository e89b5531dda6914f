"""A fetched batch of one partition: several record batches, in the bytes that the broker sent.

Nothing is decoded until it is requested: `records` gives Python objects, `to_arrow` an Arrow record
batch at native speed, and `data` the bytes. The bytes are a view of the network buffer.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, cast

from kohort.client.fetch.decoding import decode
from kohort.client.fetch.machine_code import machine_code
from kohort.client.record import K, Record, V
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batch_format import MAGIC, MAGIC_AT, Header, crc_is_right, iterate
from kohort.protocol.compression import Buffer
from kohort.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_END: Final = 2**63 - 1


class Batch(Generic[K, V]):
    """Records of one partition from `first_offset` to below `next_offset`, the offset to commit.

    There may be fewer records than offsets, even none: compaction removes records, and transactions
    have markers.
    """

    __slots__ = (
        "_damage",
        "_records",
        "aborted",
        "data",
        "first_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "next_offset",
        "record_count",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        data: Buffer,
        first_offset: int,
        next_offset: int,
        *,
        leader_epoch: int = -1,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: tuple[tuple[int, int], ...] = (),
        record_count: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.data = data
        """Whole record batches as received. The first may begin before `first_offset`."""
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        """Leader epoch of the last record batch; -1 if not known."""
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        """Aborted transactions as (producer id, first offset); their records are skipped."""
        self.record_count = record_count
        """Count of the headers, without decoding, skipped records included; 0: not known."""
        self._records: tuple[Record[K, V], ...] | None = None
        self._damage: KafkaError | None = None
        """The error of the record after `_records`, if that record cannot be decoded."""

    def __repr__(self) -> str:
        return (
            f"<Batch {self.topic_partition} [{self.first_offset}, {self.next_offset}) "
            f"{len(self.data)} bytes>"
        )

    def __len__(self) -> int:
        """Number of records; decodes them."""
        return len(self.records)

    def __iter__(self) -> Iterator[Record[K, V]]:
        """The records in order; decoded each time unless `records` was used, which is faster."""
        if self._records is None:
            return chain.from_iterable(self._decoded())
        return iter(self._records) if self._damage is None else self._until_damage(self._damage)

    def _until_damage(self, damage: KafkaError) -> Iterator[Record[K, V]]:
        yield from self._records or ()
        raise fresh(damage)

    def _decoded(self) -> Iterator[Iterable[Record[K, V]]]:
        records = decode(
            self.topic_partition, self.data, self.first_offset, self.next_offset, self.aborted
        )
        return cast("Iterator[Iterable[Record[K, V]]]", records)

    @property
    def size(self) -> int:
        """Size of `data` in bytes."""
        return len(self.data)

    @property
    def records(self) -> tuple[Record[K, V], ...]:
        """The records, decoded on first use. Raises KafkaError CORRUPT_MESSAGE, INVALID_RECORD."""
        if self._records is None:
            self._records = tuple(chain.from_iterable(self._decoded()))
        if self._damage is not None:
            raise fresh(self._damage)
        return self._records

    def readable(self) -> tuple[list[Record], KafkaError | None]:
        """The records before the first one that cannot be decoded, and the error of that one."""
        decoded: list[Record] = []
        try:
            for records in self._decoded():
                decoded += cast("Iterable[Record]", records)
        except KafkaError as error:
            return decoded, error.with_traceback(None)
        return decoded, None

    def replace_records(self, records: Iterable[Record[K, V]], damage: KafkaError | None) -> None:
        """Set the records; iteration raises `damage` after them."""
        self._records, self._damage = tuple(records), damage

    def headers(self) -> Iterator[Header]:
        """The headers of the record batches that are not aborted."""
        return (header for _, header in committed_batches(self.data, self.aborted))

    def to_arrow(self, *, include_headers: bool = False) -> "pa.RecordBatch":
        """The records as Arrow, with the columns of Spark's Kafka source (`kohort.columnar`).

        Needs `pip install 'kohort[arrow]'`, else KohortError. Raises KafkaError CORRUPT_MESSAGE.
        """
        topic, partition = self.topic_partition
        batch: Any = _columnar().decode(
            self.data,
            topic=topic,
            partition=partition,
            from_offset=self.first_offset,
            to_offset=self.next_offset,
            include_headers=include_headers,
            aborted=self.aborted,
            check_crcs=False,
        )
        return batch


def _columnar() -> Any:
    try:
        from kohort.columnar import decoding
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "numpy", "llvmlite"):
            raise
        raise KohortError(f"Arrow batches need {error.name}: pip install 'kohort[arrow]'") from None
    return decoding


class Scan(NamedTuple):
    """The usable part of a partition's bytes."""

    size: int
    """Bytes of the whole batches that can be used."""
    next_offset: int
    """Offset after them; the requested offset if there are none."""
    leader_epoch: int
    """Leader epoch of the last of them; -1 if there are none."""
    record_count: int
    """Number of their records, as the headers say."""


def scan(tp: TopicPartition, data: memoryview, from_offset: int, *, check_crcs: bool) -> Scan:
    """Scan the batches in the response to a fetch from `from_offset`.

    The scan ends before an incomplete batch. Raises KafkaError if the first batch cannot be read:
    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT for formats before 2017, MESSAGE_TOO_LARGE if
    only a part of it arrived. A later batch with an error ends the scan: it is the first of the
    next fetch.
    """
    decoder = machine_code.decoder
    if decoder is not None and len(data) >= machine_code.min_bytes:
        scanned = decoder.scan_batches(data, check_crcs=check_crcs)
        if scanned is not None:
            return Scan(
                scanned.size,
                max(scanned.next_offset, from_offset),
                scanned.leader_epoch,
                scanned.records,
            )
    size, next_offset, epoch, count = 0, from_offset, -1, 0
    try:
        for position, header in iterate(data):
            if check_crcs and not crc_is_right(data[position:], header):
                raise KafkaError(
                    ErrorCode.corrupt_message,
                    f"batch at offset {header.base_offset}: "
                    "its bytes differ from the produced ones: the CRC is wrong",
                )
            size = position + header.size
            next_offset = max(next_offset, header.last_offset + 1)
            epoch = header.partition_leader_epoch
            count += header.record_count
    except KafkaError as error:
        if not size:
            raise KafkaError(error.code, f"{tp}, {error.message}") from None
    if not size and data:
        _refuse_cut(tp, data, from_offset)
    return Scan(size, next_offset, epoch, count)


def _refuse_cut(tp: TopicPartition, data: memoryview, from_offset: int) -> None:
    if len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
        raise KafkaError(
            ErrorCode.unsupported_for_message_format,
            f"{tp} at offset {from_offset}: only v2 is read",
        )
    raise KafkaError(
        ErrorCode.message_too_large,
        f"{tp} at offset {from_offset}: only {len(data)} bytes of a larger record batch arrived;"
        " raise max_partition_fetch_bytes",
    )
