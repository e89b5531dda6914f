"""Offsets as CSV, in the format of `kafka-consumer-groups --export` and `--from-file`.

`topic,partition,offset` for a single group, `group,topic,partition,offset` for several; no header.
The first line decides on the format of a file.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from kohort.client.resets.plan import OffsetChange
from kohort.errors import ConfigError
from kohort.types import GroupId, TopicPartition

WITHOUT_GROUP: Final = 3
WITH_GROUP: Final = 4


def read_offsets(text: str, groups: Sequence[GroupId]) -> dict[tuple[GroupId, TopicPartition], int]:
    """The offsets of these groups, without lines of other groups. Raises ConfigError."""
    rows = [
        (number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), start=1) if row
    ]
    if not rows:
        raise ConfigError("the CSV file is empty")
    columns = len(rows[0][1])
    if columns == WITHOUT_GROUP and len(groups) != 1:
        raise ConfigError(
            "the CSV file has no column of groups (group,topic,partition,offset), but "
            "several are reset"
        )
    offsets: dict[tuple[GroupId, TopicPartition], int] = {}
    for number, row in rows:
        group, partition, offset = _read(row, columns, number, groups)
        if offsets.setdefault((group, partition), offset) != offset:
            raise ConfigError(f"line {number} of the CSV file: {partition} has two offsets")
    requested_groups = set(groups)
    return {key: offset for key, offset in offsets.items() if key[0] in requested_groups}


def _read(
    row: Sequence[str], columns: int, number: int, groups: Sequence[GroupId]
) -> tuple[GroupId, TopicPartition, int]:
    try:
        if len(row) != columns or columns not in (WITHOUT_GROUP, WITH_GROUP):
            raise ValueError
        topic, partition, offset = row[-3].strip(), int(row[-2]), int(row[-1])
        if not topic or partition < 0 or offset < 0:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"line {number} of the CSV file: {','.join(row)!r} is neither topic,partition,offset "
            "nor group,topic,partition,offset"
        ) from None
    group = GroupId(row[0].strip()) if columns == WITH_GROUP else groups[0]
    return group, TopicPartition(topic, partition), offset


def write_offsets(changes: Iterable[OffsetChange], *, with_group: bool) -> str:
    """The new offsets, one per line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for change in changes:
        if change.new is not None:
            offset = (change.partition.topic, change.partition.partition, change.new.offset)
            writer.writerow((change.group, *offset) if with_group else offset)
    return text.getvalue()
