"""Decodes a group record of `__consumer_offsets` into a row of `schema.GROUPS`.

Nothing raises: a record of an unknown type or version, or with damaged bytes, has an `error`. What
members wrote themselves (subscriptions, assignments) may be broken in a record that is not; then
the record has its content and an error.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kohort.history.blobs import read_assignment, read_subscription
from kohort.history.group_layouts import CLASSIC, GROUP_METADATA, LAYOUTS, REDPANDA, Layout
from kohort.history.layouts import ERRORS, DamagedError, int16, string
from kohort.history.schema import LATEST_MS

_CONSUMER: Final = "consumer"
_MEMBER_STATES: Final[Mapping[str, Sequence[str]]] = {
    "consumer": ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"),
    "share": ("STABLE",),
    "streams": ("STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS"),
}
_GROUP_METADATA_TYPE: Final = GROUP_METADATA.to_bytes(2, "big")
_LONGEST_TOPIC: Final = 249
"""Characters of a topic's name at most: MAX_NAME_LENGTH of Kafka's class Topic."""
_MAX_ERRORS: Final = 3
"""Most errors of a record that its row names: members may be many."""


class GroupRecord(NamedTuple):
    """A decoded record."""

    protocol: str | None
    """Of the group: classic | consumer | share | streams; None: unknown type."""
    kind: str
    """The column of the row that has the content: classic | epoch | member | target | current |
    other."""
    group: str | None
    member_id: str | None
    content: dict[str, Any] | None
    """The value of that column; of a tombstone, its key fields. None if it was not decoded."""
    version: int | None
    """Of the value; None for a tombstone."""
    error: str | None = None
    keeps_raw: bool = False
    """Whether the row has the raw bytes: not all of them were decoded."""
    topics: tuple[tuple[str, str], ...] = ()
    """(id, name) of topics that it names."""
    regex_topics: tuple[str, ...] | None = None
    """Topics that a regular expression matched; None: none, or a tombstone."""

    @property
    def is_decoded(self) -> bool:
        """Whether the record itself was decoded; what members wrote may be broken."""
        return self.protocol is not None and (self.error is None or self.content is not None)

    @property
    def is_tombstone(self) -> bool:
        return self.version is None and self.error is None


def decode_group_record(key: bytes, value: bytes | None) -> GroupRecord:
    """The record with these bytes. Never raises."""
    group = protocol = member_id = version = None
    kind = "other"
    key = _without_length(key, value)
    try:
        type_, at = int16(key, 0)
        layout = LAYOUTS.get(type_)
        if layout is not None:
            protocol, kind = layout.protocol, layout.kind
        elif type_ == GROUP_METADATA:
            protocol = kind = "classic"
        group, at = string(key, at)
        if layout is not None and layout.has_member:
            member_id, at = string(key, at)
        if layout is None and type_ != GROUP_METADATA:
            raise DamagedError(f"key type {type_} is unknown")
        version = None if value is None else int16(value, 0)[0]
        if layout is None:
            return _classic(group, value, version)
        return _modern(layout, group, member_id, value, version)
    except ERRORS as error:
        reason = _reason(error)
        return GroupRecord(protocol, kind, group, member_id, None, version, reason, keeps_raw=True)


def _without_length(key: bytes, value: bytes | None) -> bytes:
    """The key of a tombstone without the length that old versions of Redpanda put before it."""
    has_length = value is None and int.from_bytes(key[:4], "little") == len(key) - 4
    return key[4:] if has_length and key[4:6] == _GROUP_METADATA_TYPE else key


def timestamp(ms: int | None) -> int | None:
    """Time in µs; None for an unknown one (negative), or one that no timestamp can hold."""
    return ms * 1_000 if ms is not None and 0 <= ms <= LATEST_MS else None


def _joined(errors: Sequence[str]) -> str | None:
    """One text of the first errors; None if there are none."""
    more = [f"and {len(errors) - _MAX_ERRORS} more"] if len(errors) > _MAX_ERRORS else []
    return "; ".join([*errors[:_MAX_ERRORS], *more]) or None


def _reason(error: Exception) -> str:
    """Why bytes could not be read."""
    is_end = isinstance(error, IndexError | struct.error)
    return "ends before its last field" if is_end else str(error)


# --- classic


def _classic(group: str, value: bytes | None, version: int | None) -> GroupRecord:
    if value is None or version is None:
        return GroupRecord("classic", "classic", group, None, None, None)
    if not 0 <= version < len(CLASSIC):
        raise DamagedError(f"version {version} of the value is unknown (0-{len(CLASSIC) - 1})")
    content = _group_metadata(value, version)
    content["state_time"] = timestamp(content.get("state_time"))
    errors: list[str] = []
    is_consumer = content["protocol_type"] == _CONSUMER
    for member in content["members"]:
        member.setdefault("instance_id", None)
        member.setdefault("rebalance_timeout_ms", member["session_timeout_ms"])
        for name, read in _BLOBS:
            data, what = member[name], f"{name} of member {member['member_id']}"
            member[name] = _blob(data, what, read, errors) if is_consumer else None
    return GroupRecord(
        "classic",
        "classic",
        group,
        None,
        content,
        version,
        _joined(errors),
        keeps_raw=bool(errors) or (not is_consumer and bool(content["members"])),
    )


_BLOBS: Final = (("subscription", read_subscription), ("assignment", read_assignment))


def _group_metadata(value: bytes, version: int) -> dict[str, Any]:
    """By Kafka's layout, or by Redpanda's if Kafka's does not consume all bytes."""
    content: dict[str, Any]
    try:
        content, end = CLASSIC[version](value, 2)
        if end == len(value):
            return content
        reason = f"{len(value) - end} bytes remain"
    except ERRORS as error:
        reason = _reason(error)
    if version < len(REDPANDA):
        try:
            content, end = REDPANDA[version](value, 2)
        except ERRORS:
            end = -1
        if end == len(value):
            return content
    raise DamagedError(f"not a group of Kafka ({reason}), nor of Redpanda")


def _blob(data: bytes, what: str, read: Any, errors: list[str]) -> Any:
    """None if it is empty, or broken: then there is an error about it."""
    if not data:
        return None
    try:
        return read(data)
    except ERRORS as error:
        errors.append(f"{what}: {_reason(error)}")
        return None


# --- consumer, share and streams


def _modern(
    layout: Layout, group: str, member_id: str | None, value: bytes | None, version: int | None
) -> GroupRecord:
    if value is None or version is None:
        key_fields = None if member_id is None else {"member_id": member_id}
        if layout.kind == "other":
            key_fields = _other(layout, member_id, None)
        return GroupRecord(layout.protocol, layout.kind, group, member_id, key_fields, None)
    if version != 0:
        raise DamagedError(f"version {version} of the value is unknown (0)")
    fields, _ = layout.value(value, 2)
    errors: list[str] = []
    topics: tuple[tuple[str, str], ...] = ()
    regex_topics = None
    match layout.kind:
        case "epoch":
            content = {
                "epoch": fields["epoch"],
                "metadata_hash": fields["metadata_hash"],
                "topology_epoch": fields.get("topology_epoch"),
            }
        case "member":
            content = _member(member_id, fields, errors)
        case "target":
            content = _target(member_id, fields)
        case "current":
            content = _current(layout.protocol, member_id, fields)
        case _:
            content = _other(layout, member_id, fields)
            topics = _named(fields)
            if layout.has_member:
                regex_topics = tuple(fields["topics"])
    return GroupRecord(
        layout.protocol,
        layout.kind,
        group,
        member_id,
        content,
        version,
        _joined(errors),
        bool(errors),
        topics,
        regex_topics,
    )


def _member(member_id: str | None, fields: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    classic, endpoint = fields.pop("classic", None), fields.get("endpoint")
    content = {**_NO_MEMBER, **fields, "member_id": member_id}
    content["regex"] = content["regex"] or None
    if endpoint is not None:
        content["endpoint"] = f"{endpoint['host']}:{endpoint['port']}"
    if classic is not None:
        content["session_timeout_ms"] = classic["session_timeout_ms"]
        content["protocols"] = protocols = classic["protocols"]
        for protocol in protocols:
            what = f"subscription of member {member_id} to {protocol['name']}"
            data = protocol["subscription"]
            protocol["subscription"] = _blob(data, what, read_subscription, errors)
    return content


_NO_MEMBER: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        *("instance_id", "rack", "topics", "regex", "rebalance_timeout_ms", "assignor"),
        *("process_id", "endpoint", "session_timeout_ms", "protocols"),
    )
)


def _target(member_id: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "epoch": fields.get("epoch"),
        "target_time": timestamp(fields.get("target_time") or None),
        "partitions": _partitions(fields["partitions"]) if "partitions" in fields else None,
        "tasks": _tasks(fields) if "active" in fields else None,
    }


def _current(protocol: str, member_id: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    state, names = fields["state"], _MEMBER_STATES[protocol]
    return {
        "member_id": member_id,
        "epoch": fields["epoch"],
        "previous_epoch": fields["previous_epoch"],
        "state": names[state] if 0 <= state < len(names) else f"UNKNOWN({state})",
        "assigned": _partitions(fields["assigned"]) if "assigned" in fields else None,
        "pending": _partitions(fields["pending"]) if "pending" in fields else None,
        "tasks": _tasks(fields) if "active" in fields else None,
    }


def _partitions(topics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for topic in topics:
        topic_id, partitions = topic["topic_id"], topic["partitions"]
        epochs = topic.get("epochs") or ()
        if len(epochs) != len(partitions):
            epochs = [None] * len(partitions)
        rows += [
            {"topic_id": topic_id, "partition": partition, "epoch": epoch}
            for partition, epoch in zip(partitions, epochs, strict=True)
        ]
    return rows


def _tasks(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "subtopology": task["subtopology"], "partitions": task["partitions"]}
        for kind in _TASK_KINDS
        for task in fields.get(kind, ())
    ]


_TASK_KINDS: Final = (
    *("active", "standby", "warmup"),
    *("pending active", "pending standby", "pending warmup"),
)


def _other(layout: Layout, member_id: str | None, fields: dict[str, Any] | None) -> dict[str, Any]:
    content = dict(fields) if fields is not None else {}
    if member_id is not None:
        content = {"regex": member_id, **content}
    text = json.dumps(content, ensure_ascii=False) if content else None
    return {"kind": layout.name, "json": text}


def _named(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Topics with their ids, without names that no topic has: keys of commits may not hold them."""
    return tuple(
        (topic["topic_id"], topic["topic"])
        for name in ("initializing", "initialized", "topics")
        for topic in fields.get(name, ())
        if isinstance(topic, dict) and len(topic["topic"]) <= _LONGEST_TOPIC
    )
