"""The file of exported offsets: JSON, with a line per partition.

    {"format": "kohort offset export", "version": 1, "hash": "xxh64", "source": "…",
     "cluster_id": "…", "made_at": "2026-01-31T10:42:00.000Z", "made_at_ms": 1769856120000,
     "groups": [{"group": "billing", "partitions": [
       {"topic": "orders", "partition": 0, "topic_id": "…", "offset": 7, "leader_epoch": 0,
        "metadata": "", "before": {"offset": 6, "timestamp": 1769856100000, "hash": "…"},
        "at": null}]}]}

`before` is the last record before the offset, `at` the first one from there on.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata, committable
from kohort.client.resets import iso
from kohort.client.transfers.marks import HASH, HASH_DIGITS, RecordMark
from kohort.errors import KohortError
from kohort.types import GroupId, TopicPartition

FORMAT: Final = "kohort offset export"
VERSION: Final = 1
_HASH: Final = re.compile(rf"[0-9a-f]{{{HASH_DIGITS}}}")
_INT64_MAX: Final = 2**63 - 1


class ExportError(KohortError):
    """A file that is not an export; the message has the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedOffset:
    """The committed offset of one partition, and the records around it."""

    partition: TopicPartition
    topic_id: UUID | None
    commit: OffsetAndMetadata
    before: RecordMark | None
    at: RecordMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Committed offsets of groups of one cluster."""

    source: str
    """Text, such as "committed" or "history at 2026-01-31T10:42:00.000Z"."""
    cluster_id: str | None
    made_at_ms: int
    groups: Mapping[GroupId, tuple[ExportedOffset, ...]]

    def to_json(self) -> str:
        head = {
            "format": FORMAT,
            "version": VERSION,
            "hash": HASH,
            "source": self.source,
            "cluster_id": self.cluster_id,
            "made_at": iso(self.made_at_ms),
            "made_at_ms": self.made_at_ms,
        }
        lines = ",\n".join(f"  {json.dumps(name)}: {_line(value)}" for name, value in head.items())
        groups = ",\n".join(_group_lines(*entry) for entry in self.groups.items())
        return f'{{\n{lines},\n  "groups": [\n{groups}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "Export":
        """Raises ExportError, and no other error for any text."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ExportError(f"not JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ExportError(
                f'not exported offsets: "format" is not "{FORMAT}"; kohort history export writes '
                "such a file"
            )
        if content.get("version") != VERSION or content.get("hash") != HASH:
            raise ExportError(
                f"version {content.get('version')!r} of exported offsets with hash "
                f"{content.get('hash')!r}; this Kohort reads version {VERSION} with {HASH}"
            )
        try:
            return _export(content)
        except KeyError as error:
            raise ExportError(f"not exported offsets: {error} is missing") from None
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ExportError(f"not exported offsets: {error}") from None


def _group_lines(group: GroupId, offsets: tuple[ExportedOffset, ...]) -> str:
    lines = ",\n      ".join(_line(_fields(offset)) for offset in offsets)
    return f'    {{"group": {_line(group)}, "partitions": [\n      {lines}\n    ]}}'


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fields(exported: ExportedOffset) -> dict[str, Any]:
    return {
        "topic": exported.partition.topic,
        "partition": exported.partition.partition,
        "topic_id": None if exported.topic_id is None else str(exported.topic_id),
        "offset": exported.commit.offset,
        "leader_epoch": exported.commit.leader_epoch,
        "metadata": exported.commit.metadata,
        "before": None if exported.before is None else asdict(exported.before),
        "at": None if exported.at is None else asdict(exported.at),
    }


# --- reading: every value may be anything


def _export(content: Mapping[str, Any]) -> Export:
    made_at_ms = _int(content["made_at_ms"], 0)
    iso(made_at_ms)  # within the calendar
    groups: dict[GroupId, tuple[ExportedOffset, ...]] = {}
    for entry in _list(content["groups"]):
        group = GroupId(_text(_dict(entry)["group"]))
        if group in groups:
            raise ValueError(f"group {group} appears twice")
        groups[group] = _offsets(entry["partitions"])
    cluster_id = content["cluster_id"]
    return Export(
        source=_text(content["source"]),
        cluster_id=None if cluster_id is None else _text(cluster_id),
        made_at_ms=made_at_ms,
        groups=groups,
    )


def _offsets(entries: Any) -> tuple[ExportedOffset, ...]:
    offsets = tuple(map(_offset, _list(entries)))
    if len({offset.partition for offset in offsets}) < len(offsets):
        raise ValueError("a partition of a group appears twice")
    return offsets


def _offset(entry: Any) -> ExportedOffset:
    fields = _dict(entry)
    partition = TopicPartition(_text(fields["topic"]), _int(fields["partition"], 0, 2**31 - 1))
    commit = OffsetAndMetadata(
        offset=_int(fields["offset"], 0),
        leader_epoch=_int(fields["leader_epoch"], -1),
        metadata=_text(fields["metadata"]),
    )
    topic_id = fields["topic_id"]
    return ExportedOffset(
        partition=partition,
        topic_id=None if topic_id is None else UUID(_text(topic_id)),
        commit=committable(partition, commit),
        before=_mark(fields["before"]),
        at=_mark(fields["at"]),
    )


def _mark(entry: Any) -> RecordMark | None:
    if entry is None:
        return None
    fields = _dict(entry)
    if not _HASH.fullmatch(_text(fields["hash"])):
        raise ValueError(f"hash {fields['hash']!r} has not {HASH_DIGITS} hexadecimal digits")
    return RecordMark(_int(fields["offset"], 0), _int(fields["timestamp"], -1), fields["hash"])


def _int(value: Any, least: int, greatest: int = _INT64_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.50} is not an integer")
    if not least <= value <= greatest:
        raise ValueError(f"{value!s:.50} is not between {least} and {greatest}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.50} is not a string")
    value.encode()  # half of a surrogate pair cannot be sent
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.50} is not a list")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.50} is not an object")
    return value
