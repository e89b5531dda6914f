"""Ids and counters of a recording, and those that the server of a replay chose instead.

The first response with an id of the recording, beside the response of the replay, tells which id
stands for it. From then on requests are sent with the other id, and each response has to have it.

- An id that a client chose, such as a member id of KIP-848, is sent first. It stands for itself.
- A generation or producer epoch keeps its distance: if a group was in generation 7 when it was
  first seen and is in 2 now, 3 stands for 8. A group that was new in the recording has to be new.
- ApiVersions requests do not say which node they expect (KIP-1242): it is another one.
- A leader epoch in requests is left out (-1) as soon as one differs: its check would fail.
"""

from dataclasses import replace
from typing import Any, Final

from kohort.errors import KafkaError
from kohort.protocol.batch_writing import with_producer
from kohort.protocol.batches import iterate
from kohort.recording.frames import API_VERSIONS
from kohort.recording.message_fields import COUNTERS, IDS, SCOPES, class_of, fields_of, is_no_id

_EPOCH: Final = "current_leader_epoch"
Scope = dict[str, Any]
"""The group id and producer id that counters belong to, by the names of their fields."""


class IdMapping:
    """What stands for what, by kind. It grows by two entries for each id of the recording."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, Any], Any] = {}
        self._recorded: dict[tuple[str, Any], Any] = {}
        self._shifts: dict[tuple[str, Any], int] = {}
        self.leader_epochs_differ = False

    def has(self, kind: str, recorded: Any) -> bool:
        """Whether something stands for an id of the recording."""
        return (kind, recorded) in self._live

    def live_id(self, kind: str, recorded: Any) -> Any:
        """The id that stands for one of the recording, by default the same."""
        return self._live.get((kind, recorded), recorded)

    def ids_match(self, kind: str, recorded: Any, live: Any) -> bool:
        """Whether the second id stands for the first; if neither was seen, it does from now on."""
        if is_no_id(kind, recorded) or is_no_id(kind, live):
            return bool(recorded == live)
        known = self._live.get((kind, recorded))
        if known is not None:
            return bool(known == live)
        if (kind, live) in self._recorded:
            return False
        self._pair(kind, recorded, live)
        return True

    def counters_match(self, name: str, recorded: int, live: int, scope: Scope) -> bool:
        """Whether a counter has its distance to that of the recording; the first one sets it."""
        kind, first = COUNTERS[name]
        if recorded < first or live < first:
            return recorded == live
        key = (kind, scope.get(SCOPES[kind]))
        if recorded == first:
            self._shifts.setdefault(key, 0)
        return self._shifts.setdefault(key, live - recorded) == live - recorded

    def translated(self, message: Any, scope: Scope | None = None) -> Any:
        """A request of the recording with the ids and counters of now."""
        scope = scope_of(message, scope or {})
        changes: dict[str, Any] = {}
        for name, field_shape in fields_of(class_of(message)):
            value = getattr(message, name)
            if value is None:
                continue
            if field_shape.is_struct:
                new = self._translated_structs(value, scope)
            elif name in IDS:
                new = self._sent_id(IDS[name], value)
            elif name in COUNTERS:
                new = self._live_counter(name, value, scope)
            elif name == "records":
                new = self._translated_records(value)
            else:
                new = -1 if name == _EPOCH and self.leader_epochs_differ else value
            if new is not value:
                changes[name] = new
        if class_of(message).__api_key__ == API_VERSIONS and hasattr(message, "cluster_id"):
            changes |= {"cluster_id": None, "node_id": -1}
        return replace(message, **changes) if changes else message

    def _translated_structs(self, value: Any, scope: Scope) -> Any:
        if not isinstance(value, tuple):
            return self.translated(value, scope)
        new = tuple(self.translated(element, scope) for element in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value

    def _sent_id(self, kind: str, recorded: Any) -> Any:
        if is_no_id(kind, recorded):
            return recorded
        if not self.has(kind, recorded) and (kind, recorded) not in self._recorded:
            self._pair(kind, recorded, recorded)
        return self.live_id(kind, recorded)

    def _live_counter(self, name: str, recorded: int, scope: Scope) -> int:
        kind, first = COUNTERS[name]
        if recorded < first:
            return recorded
        return recorded + self._shifts.get((kind, scope.get(SCOPES[kind])), 0)

    def _translated_records(self, data: bytes) -> bytes:
        """Record batches with the producer id and epoch of now."""
        try:
            return b"".join(
                self._translated_batch(data[position : position + header.size], header)
                for position, header in iterate(data)
            )
        except KafkaError:  # an old format, which the server refuses again
            return data

    def _translated_batch(self, batch: bytes, header: Any) -> bytes:
        producer_id = self.live_id("producer id", header.producer_id)
        epoch = self._live_counter(
            "producer_epoch", header.producer_epoch, {"producer_id": header.producer_id}
        )
        if (producer_id, epoch) == (header.producer_id, header.producer_epoch):
            return batch
        return with_producer(batch, header, producer_id, epoch)

    def _pair(self, kind: str, recorded: Any, live: Any) -> None:
        self._live[kind, recorded] = live
        self._recorded[kind, live] = recorded


def scope_of(message: Any, outer: Scope) -> Scope:
    """The scope within a struct: its own group id and producer id, else those around it."""
    own = {name: getattr(message, name) for name in SCOPES.values() if hasattr(message, name)}
    return {**outer, **own} if own else outer
