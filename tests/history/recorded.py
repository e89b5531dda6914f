"""Recorded logs of Apache Kafka, unpacked and decoded; `history.recording` has their format."""

import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa

from kohort.history.schema import RECORDS
from kohort.protocol import records as record_format
from kohort.protocol.batch_format import HEADER_SIZE, Header, iterate

LOGS = Path(__file__).parent / "logs"
NAMES = tuple(sorted(file.name.partition(".")[0] for file in LOGS.glob("*.tar.xz")))
WITH_CLIENTS = ("classic", "consumer", "offsets")
"""Those whose groups have the members of client libraries, and snapshots of all groups."""
_CONTROLS = {0: "abort", 1: "commit"}


class Dumped(NamedTuple):
    """A record as DumpLogSegments prints it."""

    log_partition: int
    offset: int
    key: Mapping[str, Any]
    """{"type": …, "data": {…}}"""
    value: Mapping[str, Any] | None
    """{"version": …, "data": {…}}; None: a tombstone."""


@dataclass(eq=False)
class Recording:
    """One archive of `logs/`, unpacked."""

    name: str
    directory: Path

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        return self._json("events")

    @cached_property
    def snapshots(self) -> list[dict[str, Any]]:
        return self._json("snapshots")

    @cached_property
    def topics(self) -> dict[str, str]:
        return self._json("topics")

    def _json(self, name: str) -> Any:
        return json.loads((self.directory / f"{name}.json").read_text())

    @property
    def log_partitions(self) -> range:
        return range(len(list((self.directory / "whole").iterdir())))

    def cleaned(self) -> dict[int, int]:
        """First offset that the cleaner had not come to, by log partition, of `compacted`."""
        lines = (self.directory / "compacted" / "cleaner-offset-checkpoint").read_text()
        rows = [line.split() for line in lines.splitlines()[2:]]
        return {int(row[1]): int(row[2]) for row in rows if row[0] == "__consumer_offsets"}

    @cache  # noqa: B019  as many as there are recordings
    def records(self, log: str, log_partition: int) -> pa.Table:
        """All records of a log partition of `whole` or `compacted`, as the fold takes them."""
        directory = self.directory / log / f"__consumer_offsets-{log_partition}"
        return read_segments(sorted(directory.glob("*.log")), log_partition)

    @cached_property
    def dumped(self) -> list[Dumped]:
        """The records of `whole` as DumpLogSegments prints them, without control records."""
        return list(_parse_dump((self.directory / "dump-whole.txt").read_text()))


def read_segments(segments: Iterable[Path], log_partition: int) -> pa.Table:
    """The records of these segments of one log partition, in order."""
    rows = [row for segment in segments for row in _rows(segment.read_bytes(), log_partition)]
    return pa.Table.from_pylist(rows, RECORDS)


def _rows(data: bytes, log_partition: int) -> Iterator[dict[str, Any]]:
    for position, header in iterate(data):
        batch = data[position : position + header.size]
        of_batch = _batch_columns(header)
        records = record_format.decode(
            batch, HEADER_SIZE, header.record_count, header.base_offset, header.base_timestamp
        )
        for record in records:
            control = None
            if header.is_control:
                kind = int.from_bytes(record.key[2:4], "big")
                control = _CONTROLS.get(kind, "other")
            yield {
                **of_batch,
                "key": record.key,
                "value": record.value,
                "partition": log_partition,
                "offset": record.offset,
                "timestamp": record.timestamp * 1000,
                "control": control,
            }


def _batch_columns(header: Header) -> dict[str, Any]:
    has_producer = header.producer_id >= 0
    return {
        "batchOffset": header.base_offset,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "producerId": header.producer_id if has_producer else None,
        "producerEpoch": header.producer_epoch if has_producer else None,
        "transactional": header.is_transactional,
    }


_FILE = re.compile(r"^Dumping \S*__consumer_offsets-(\d+)/", re.MULTILINE)
_RECORD = re.compile(r"^\| offset: (\d+) .*? key: (\{.*?\}) payload: ?(.*)$", re.MULTILINE)


def _parse_dump(text: str) -> Iterator[Dumped]:
    parts = _FILE.split(text)
    for number, part in zip(parts[1::2], parts[2::2], strict=True):
        for found in _RECORD.finditer(part):
            value = json.loads(found[3]) if found[3].startswith("{") else None
            yield Dumped(int(number), int(found[1]), json.loads(found[2]), value)


_unpacked: list[TemporaryDirectory[str]] = []
"""They end with the process."""


@cache
def load(name: str) -> Recording:
    """A recording by name."""
    home = TemporaryDirectory(prefix=f"recorded-{name}-")
    _unpacked.append(home)
    with tarfile.open(LOGS / f"{name}.tar.xz") as archive:
        archive.extractall(home.name, filter="data")
    return Recording(name, Path(home.name))
