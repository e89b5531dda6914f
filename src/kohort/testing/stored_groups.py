"""Groups in the segment files of `__consumer_offsets`, of Apache Kafka or Kohort.

The files are read whole, one after the other, and never changed. What counts is the last value of
each key, as after compaction. Offsets of a transaction count once its marker commits them, unless a
later record has the same key (Kafka's OffsetMetadataManager).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from kohort.coordinator.records import Row, decode
from kohort.coordinator_common import CorruptRecordError
from kohort.errors import KafkaError, KohortError
from kohort.log.partition_mark import MARK, decode_mark
from kohort.protocol.batches import Header, crc_is_right, decode_records, iterate, read_marker

_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_GROUPS: Final = "__consumer_offsets"
_INTERNAL: Final = "__"
"""Begins the names of topics of Kafka's own."""
_SEGMENT: Final = re.compile(r"\d{20}\.log")


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """What segment files have of groups, and of the topics beside them."""

    rows: tuple[Row, ...] = ()
    """The last record of each key, without tombstones, in the order of the log."""
    left_out: int = 0
    """Records of share and streams groups, which Kohort does not serve."""
    open_transactions: int = 0
    """Transactions without a marker, whose offsets are left out."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Topic → number of its partitions, of directories beside them."""
    topic_ids: dict[UUID, str] = field(default_factory=dict)
    """Topic id → name, of these directories."""


def read_stored_groups(path: Path) -> StoredGroups:
    """The groups of a data directory, or of one partition of `__consumer_offsets`.

    Raises KohortError if there is none, and for a file that is damaged or cannot be read.
    """
    try:
        return _read(path)
    except OSError as error:
        raise KohortError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def _read(path: Path) -> StoredGroups:
    directories = [path] if _name_of(path) else sorted(filter(_name_of, path.rglob("*-*")))
    of_groups = [each for each in directories if _name_of(each) == _GROUPS]
    if not of_groups:
        raise KohortError(
            f"{path} has no groups: pass a data directory (log.dir), or a directory such as "
            f"{_GROUPS}-0 with segment files"
        )
    rows: list[Row] = []
    left_out = open_transactions = 0
    for directory in of_groups:
        partition = _Partition(directory)
        partition.read()
        decoded = [_decoded(directory, key, value) for key, (_, value) in partition.rows.items()]
        rows += [row for row in decoded if row is not None]
        left_out += decoded.count(None)
        open_transactions += len(partition.pending)
    others = [each for each in directories if not _name_of(each).startswith(_INTERNAL)]
    return StoredGroups(
        tuple(rows), left_out, open_transactions, _partitions(others), dict(_topic_ids(others))
    )


def _name_of(directory: Path) -> str:
    """The topic of a directory of a partition; "" if it is none."""
    match = _PARTITION.fullmatch(directory.name)
    return match[1] if match and directory.is_dir() else ""


def _partitions(directories: list[Path]) -> dict[str, int]:
    found: dict[str, int] = {}
    for directory in directories:
        name, _, number = directory.name.rpartition("-")
        found[name] = max(found.get(name, 0), int(number) + 1)
    return found


def _topic_ids(directories: list[Path]) -> Iterator[tuple[UUID, str]]:
    for directory in directories:
        mark = directory / MARK
        topic_id = decode_mark(mark.read_bytes()) if mark.is_file() else None
        if topic_id is not None:
            yield topic_id, _name_of(directory)


def _decoded(directory: Path, key: bytes, value: bytes) -> Row | None:
    try:
        return decode(key, value)
    except CorruptRecordError as error:
        raise KohortError(f"{directory} is damaged: {error}") from error


class _Partition:
    """The last values of one partition."""

    def __init__(self, directory: Path) -> None:
        self.rows: dict[bytes, tuple[int, bytes]] = {}
        """Key → offset and value of its last record."""
        self.pending: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        """The same of open transactions, by producer id."""
        self._directory = directory

    def read(self) -> None:
        """Read all segments. Raises KohortError, OSError."""
        names = sorted(each for each in self._directory.iterdir() if _SEGMENT.fullmatch(each.name))
        for path in names:
            data = path.read_bytes()
            position = 0
            try:
                for position, header in iterate(data):
                    self._add(data[position : position + header.size], header)
            except KafkaError as error:
                raise KohortError(f"{path} is damaged at byte {position}: {error}") from error

    def _add(self, batch: bytes, header: Header) -> None:
        if not crc_is_right(batch, header):
            raise KohortError(
                f"{self._directory} is damaged: the checksum of the batch at offset "
                f"{header.base_offset} is wrong. Load a copy of another replica"
            )
        if header.is_control:
            marker = read_marker(batch)
            ended = self.pending.pop(header.producer_id, {})
            if marker is not None and marker.commit:
                for key, (offset, value) in ended.items():
                    if key not in self.rows or self.rows[key][0] < offset:
                        self._set(key, offset, value)
            return
        for record in decode_records(batch):
            if record.key is not None and header.is_transactional:
                pending = self.pending.setdefault(header.producer_id, {})
                pending[record.key] = record.offset, record.value
            elif record.key is not None:
                self._set(record.key, record.offset, record.value)

    def _set(self, key: bytes, offset: int, value: bytes | None) -> None:
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = offset, value
            return
        for pending in self.pending.values():  # a tombstone deletes these, too
            pending.pop(key, None)
