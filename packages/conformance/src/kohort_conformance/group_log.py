"""The records of one group in `__consumer_offsets`, read back by Fetch and decoded.

Only what scenarios compare is here: the keys and values of the record types that Kafka 4.4 writes
for groups and offsets, in the versions that it writes.
"""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from kio.serial import entity_reader

from kohort_conformance.batches import AFTER_LENGTH, CONTROL, HEADER
from kohort_conformance.entities import response_class
from kohort_conformance.plain import Plain
from kohort_conformance.runner import shard_of
from kohort_conformance.stage import Client, Stage

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_BYTES: Final = 1 << 20
Item = TypeVar("Item")


class GroupLog:
    """What is written about a group from now on; `record` notes it, and goes on from there."""

    def __init__(self, client: Client, group: str, start: int) -> None:
        self._client = client
        self._group = group
        self._next = start

    @classmethod
    async def of(cls, stage: Stage, group: str | None = None) -> GroupLog:
        """The log of a group, by default the scenario's own, from its present end."""
        group = stage.group if group is None else group
        client = await stage.client("log reader")
        partitions = [
            {"partition_index": shard_of(group), "current_leader_epoch": -1, "timestamp": -1}
        ]
        listed = await client.quiet(
            "ListOffsets",
            5,
            replica_id=-1,
            topics=[{"name": OFFSETS_TOPIC, "partitions": partitions}],
        )
        return cls(client, group, listed["topics"][0]["partitions"][0]["offset"])

    async def record(self, label: str, by_member: bool = False) -> None:
        """Note the records of the group since the last time, in their order.

        `by_member` is for what happens to several members in an order that may differ.
        """
        found = [one async for one in self._read()]
        if by_member:
            found.sort(key=lambda one: one.get("member_id", "~"))
        self._client.stage.note(f"records: {label}", found)

    async def record_standing(self, label: str) -> None:
        """Note the records of the group since the last time that no later one deletes."""
        last: dict[tuple[Any, ...], dict[str, Any]] = {}
        async for one in self._read():
            key = tuple(value for name, value in one.items() if name not in ("version", "value"))
            last[key] = one
        standing = [one for one in last.values() if one["value"] is not None]
        self._client.stage.note(f"records: {label}", standing)

    async def skip(self) -> None:
        """Go on from the present end."""
        async for _ in self._read():
            pass

    async def _read(self) -> Any:
        while batches := await self._fetch():
            for record in _records(batches):
                if record is not None and record["group"] == self._group:
                    self._client.stage.transcript.heard(record)
                    yield record

    async def _fetch(self) -> list[tuple[tuple[int, ...], bytes]]:
        partition = {
            "partition": shard_of(self._group),
            "current_leader_epoch": -1,
            "fetch_offset": self._next,
            "log_start_offset": -1,
            "partition_max_bytes": MAX_BYTES,
        }
        sent = self._client.send(
            "Fetch",
            11,
            replica_id=-1,
            max_wait=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            session_epoch=-1,
            topics=[{"topic": OFFSETS_TOPIC, "partitions": [partition]}],
        )
        frame = await sent.call.frame()
        cls = response_class("Fetch", 11)
        _, size = entity_reader(cls.__header_schema__)(frame, 0)
        response, _ = entity_reader(cls)(frame, size)
        data = bytes(response.responses[0].partitions[0].records or b"")
        batches = [one for one in _batches(data) if _last_offset(one[0]) >= self._next]
        if batches:
            self._next = _last_offset(batches[-1][0]) + 1
        return batches


def _last_offset(header: tuple[int, ...]) -> int:
    return header[0] + header[6]


def _batches(data: bytes) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Header and body of each whole batch."""
    at = 0
    while len(data) - at >= HEADER.size:
        header = HEADER.unpack_from(data, at)
        end = at + AFTER_LENGTH + header[1]
        if end > len(data):
            return
        yield header, data[at + HEADER.size : end]
        at = end


def _records(batches: list[tuple[tuple[int, ...], bytes]]) -> Iterator[dict[str, Any] | None]:
    for header, body in batches:
        if not header[5] & CONTROL:
            reader = Reader(body)
            for _ in range(header[12]):
                yield decode(*reader.key_and_value())


class Reader:
    """Reads the primitive types of Kafka's schemas from bytes."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def fixed(self, code: str) -> int:
        """An integer of a fixed size, by its code in `struct`."""
        size = struct.calcsize(f">{code}")
        return int(struct.unpack(f">{code}", self._stream.read(size))[0])

    def varint(self) -> int:
        """An unsigned one."""
        number = shift = 0
        while True:
            byte = self._stream.read(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def zigzag(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def take(self, size: int) -> bytes | None:
        return None if size < 0 else self._stream.read(size)

    def key_and_value(self) -> tuple[bytes, bytes | None]:
        """Of one record of a batch."""
        for part in (self.zigzag, lambda: self.fixed("b"), self.zigzag, self.zigzag):
            part()
        key, value = self.take(self.zigzag()), self.take(self.zigzag())
        for _ in range(self.zigzag()):
            self.take(self.zigzag())
            self.take(self.zigzag())
        return key or b"", value

    def string(self) -> str | None:
        """Of two bytes of length, as in the keys and in the old values."""
        data = self.take(self.fixed("h"))
        return None if data is None else data.decode()

    def compact_bytes(self) -> bytes | None:
        return self.take(self.varint() - 1)

    def compact_string(self) -> str | None:
        data = self.compact_bytes()
        return None if data is None else data.decode()

    def compact_array(self, item: Callable[[], Item]) -> list[Item]:
        return [item() for _ in range(self.varint() - 1)]

    def identifier(self) -> str:
        return str(uuid.UUID(bytes=self._stream.read(16)))

    def tags(self) -> dict[int, Reader]:
        found = {}
        for _ in range(self.varint()):
            number = self.varint()
            found[number] = Reader(self.take(self.varint()) or b"")
        return found

    def rest(self) -> bytes:
        return self._stream.read()


def decode(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    """A record as plain values, or None if it is of no type that scenarios compare."""
    reader = Reader(key)
    kind = reader.fixed("h")
    if kind not in KINDS:
        return None
    name, parts, read = KINDS[kind]
    told: dict[str, Any] = {"record": name, "group": reader.string()}
    for part in parts:
        told[part] = reader.fixed("i") if part == "partition" else reader.string()
    if value is None:
        return {**told, "value": None}
    body = Reader(value)
    version = body.fixed("h")
    return {**told, "version": version, "value": {**read(body), **_trailing(body)}}


def _trailing(body: Reader) -> dict[str, Plain]:
    rest = body.rest()
    return {"trailing_bytes": rest.hex()} if rest else {}


def _unread(body: Reader) -> dict[str, Plain]:
    """Offsets are compared by OffsetFetch."""
    body.rest()
    return {}


def _classic_group(body: Reader) -> dict[str, Plain]:
    return {
        "protocol_type": body.string(),
        "generation": body.fixed("i"),
        "protocol": body.string(),
        "leader": body.string(),
        "state_time": body.fixed("q"),
        "members": [_classic_member(body) for _ in range(body.fixed("i"))],
    }


def _classic_member(body: Reader) -> Plain:
    return {
        "member_id": body.string(),
        "instance_id": body.string(),
        "client_id": body.string(),
        "client_host": body.string(),
        "rebalance_timeout": body.fixed("i"),
        "session_timeout": body.fixed("i"),
        "subscription": (body.take(body.fixed("i")) or b"").hex(),
        "assignment": (body.take(body.fixed("i")) or b"").hex(),
    }


def _epoch(body: Reader) -> dict[str, Plain]:
    told: dict[str, Plain] = {"epoch": body.fixed("i")}
    tags = body.tags()
    return {**told, "metadata_hash": tags[0].fixed("q") if 0 in tags else 0}


def _member(body: Reader) -> dict[str, Plain]:
    told: dict[str, Plain] = {
        "instance_id": body.compact_string(),
        "rack": body.compact_string(),
        "client_id": body.compact_string(),
        "client_host": body.compact_string(),
        "subscribed_topic_names": [*body.compact_array(body.compact_string)],
        "subscribed_topic_regex": body.compact_string(),
        "rebalance_timeout": body.fixed("i"),
        "server_assignor": body.compact_string(),
    }
    tags = body.tags()
    return {**told, "classic": _classic(tags[0]) if 0 in tags else "(absent)"}


def _classic(body: Reader) -> Plain:
    """Null of a consumer, or what a classic member says, in hex."""
    return body.rest().hex() if body.fixed("b") else None


def _target_epoch(body: Reader) -> dict[str, Plain]:
    told: dict[str, Plain] = {"epoch": body.fixed("i")}
    tags = body.tags()
    return {**told, "assignment_time": tags[0].fixed("q") if 0 in tags else 0}


def _topic_partitions(body: Reader) -> Plain:
    """One topic; the order of partitions is that of a hash map in Kafka."""
    topic, partitions = body.identifier(), body.compact_array(lambda: body.fixed("i"))
    tags = body.tags()
    if 0 not in tags:
        return {"topic_id": topic, "partitions": [*sorted(partitions)]}
    epochs = tags[0].compact_array(lambda: tags[0].fixed("i"))
    return {
        "topic_id": topic,
        "partitions_at_epochs": [[*one] for one in sorted(zip(partitions, epochs, strict=True))],
    }


def _target(body: Reader) -> dict[str, Plain]:
    partitions: Plain = body.compact_array(lambda: _topic_partitions(body))
    body.tags()
    return {"topic_partitions": partitions}


def _current(body: Reader) -> dict[str, Plain]:
    told: dict[str, Plain] = {
        "member_epoch": body.fixed("i"),
        "previous_member_epoch": body.fixed("i"),
        "state": body.fixed("b"),
        "assigned_partitions": [*body.compact_array(lambda: _topic_partitions(body))],
        "partitions_pending_revocation": [*body.compact_array(lambda: _topic_partitions(body))],
    }
    body.tags()
    return told


def _regex(body: Reader) -> dict[str, Plain]:
    told: dict[str, Plain] = {
        "topics": [*body.compact_array(body.compact_string)],
        "has_version": body.fixed("q") > 0,
        "time": body.fixed("q"),
    }
    body.tags()
    return told


KINDS: Final[dict[int, tuple[str, tuple[str, ...], Callable[[Reader], dict[str, Plain]]]]] = {
    1: ("1 offset", ("topic", "partition"), _unread),
    2: ("2 classic group", (), _classic_group),
    3: ("3 consumer group", (), _epoch),
    4: ("4 partition metadata", (), _target),
    5: ("5 member", ("member_id",), _member),
    6: ("6 target epoch", (), _target_epoch),
    7: ("7 target", ("member_id",), _target),
    8: ("8 current", ("member_id",), _current),
    16: ("16 regex", ("subscribed_topic_regex",), _regex),
}
"""Name, the parts of the key after the group, and the reader of the value of each record type."""
