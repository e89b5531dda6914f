"""Compares two responses to one request, field by field, but for what a server chooses."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batches import decode_records, iterate
from kohort.recording.frames import API_VERSIONS
from kohort.recording.id_mapping import IdMapping, Scope, scope_of
from kohort.recording.message_fields import (
    COUNTERS,
    IDS,
    LEADERS,
    NOT_COMPARED,
    TEXTS,
    class_of,
    fields_of,
    is_recent,
    key_fields,
)

MAX_TEXT: Final = 200
"""Characters of a value in a difference."""
ABSENT: Final = "absent"
Differing = tuple[str, str, str]
"""Path of a field, its value in the recording, its value now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A response of a replay that is not as recorded, in one field."""

    line: int
    """Line of the recording with the response, or with the request if it has none."""
    at: float
    """Seconds since the start of the recording."""
    connection: int
    client_id: str
    api: str
    """API and version, such as `JoinGroup v9`."""
    field: str
    """Path of the field; "" if it is about the whole response."""
    recorded: str
    replayed: str

    def __str__(self) -> str:
        field = f" {self.field}" if self.field else ""
        return (
            f"line {self.line}, {self.at:.3f} s, connection {self.connection} of client "
            f"{self.client_id!r}: {self.api}{field}: recorded {self.recorded}, "
            f"replayed {self.replayed}"
        )


def differing(recorded: Any, live: Any, mapping: IdMapping, request: Any) -> Iterator[Differing]:
    """The fields in which a response differs; learns the ids that are new in it.

    `request` is the one of the recording, which names the group or producer of counters.
    """
    if class_of(recorded).__api_key__ == API_VERSIONS:  # what a server has is no behaviour
        if recorded.error_code != live.error_code:
            yield "error_code", text_of(recorded.error_code), text_of(live.error_code)
        return
    yield from _Comparison(mapping).messages("", recorded, live, scope_of(request, {}))


def text_of(value: Any) -> str:
    """A value for humans, of limited length."""
    if isinstance(value, ErrorCode):
        return value.name.upper()
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):g} ms"
    text = value if isinstance(value, str) and value == ABSENT else repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"


class _Comparison:
    def __init__(self, mapping: IdMapping) -> None:
        self._mapping = mapping

    def messages(self, path: str, recorded: Any, live: Any, outer: Scope) -> Iterator[Differing]:
        """Compare two structs of one class."""
        scope = scope_of(recorded, outer)
        for name, field_shape in fields_of(class_of(recorded)):
            one, other = getattr(recorded, name), getattr(live, name)
            inner = f"{path}.{name}" if path else name
            if name in NOT_COMPARED:
                self._mapping.leader_epochs_differ |= name == "leader_epoch" and one != other
            elif (
                one is None or other is None or not (field_shape.is_struct or field_shape.is_array)
            ):
                yield from self._values(name, inner, one, other, scope)
            elif not field_shape.is_array:
                yield from self.messages(inner, one, other, scope)
            elif field_shape.is_struct:
                yield from self._structs(inner, one, other, scope)
            elif sorted(one) != sorted(other):
                yield inner, text_of(one), text_of(other)

    def _values(
        self, name: str, path: str, recorded: Any, live: Any, scope: Scope
    ) -> Iterator[Differing]:
        if name == "records" and recorded and live:
            yield from _differing_records(path, recorded, live)
        elif not self._are_equal(name, recorded, live, scope):
            yield path, text_of(recorded), text_of(live)

    def _are_equal(self, name: str, recorded: Any, live: Any, scope: Scope) -> bool:
        if name in IDS:
            return self._mapping.ids_match(IDS[name], recorded, live)
        if name in COUNTERS:
            return self._mapping.counters_match(name, recorded, live, scope)
        if name in TEXTS or name == "records":
            return bool(recorded) == bool(live)
        if name in LEADERS:
            return bool(recorded < 0) == bool(live < 0)
        return bool(recorded == live) or (is_recent(recorded) and is_recent(live))

    def _structs(
        self, path: str, recorded: Sequence[Any], live: Sequence[Any], scope: Scope
    ) -> Iterator[Differing]:
        """Compare two lists, whose elements belong together by their keys, else by their order."""
        by_key: defaultdict[Any, deque[Any]] = defaultdict(deque)
        for element in live:
            by_key[self._key(element, IdMapping())].append(element)
        pairs: list[tuple[Any, Any]] = []
        unpaired: list[Any] = []
        for element in recorded:
            same = by_key[self._key(element, self._mapping)]
            if same:
                pairs.append((element, same.popleft()))
            else:
                unpaired.append(element)
        rest = [element for same in by_key.values() for element in same]
        if unpaired and _has_new_ids(unpaired[0]):
            pairs += zip(sorted(unpaired, key=_masked), sorted(rest, key=_masked), strict=False)
            if len(unpaired) != len(rest):
                yield f"{path}.length", str(len(recorded)), str(len(live))
        else:
            yield from ((f"{path}[{_label(each)}]", "present", ABSENT) for each in unpaired)
            yield from ((f"{path}[{_label(each)}]", ABSENT, "present") for each in rest)
        for one, other in pairs:
            yield from self.messages(f"{path}[{_label(one)}]", one, other, scope)

    def _key(self, element: Any, mapping: IdMapping) -> tuple[Any, ...]:
        """The values that name an element, with the ids that stand for its own."""
        return tuple(
            mapping.live_id(IDS[name], getattr(element, name))
            if name in IDS
            else getattr(element, name)
            for name in _naming_fields(element)
        )


def _naming_fields(element: Any) -> Sequence[str]:
    """The fields that name an element: if possible ones that no server chooses."""
    names = key_fields(class_of(element))
    chosen = [name for name in names if name not in IDS and getattr(element, name) is not None]
    return chosen or names


def _has_new_ids(element: Any) -> bool:
    """Whether elements are named by ids only, which need not have been seen before."""
    names = _naming_fields(element)
    return bool(names) and all(name in IDS for name in names)


def _label(element: Any) -> str:
    return ", ".join(str(getattr(element, name)) for name in _naming_fields(element))


def _masked(element: Any) -> str:
    """A key that sorts alike whatever ids a server chose."""
    values = (
        (name, getattr(element, name))
        for name, _ in fields_of(class_of(element))
        if name not in IDS and name not in NOT_COMPARED
    )
    return repr([(name, value) for name, value in values if not is_recent(value)])


def _differing_records(path: str, recorded: bytes, live: bytes) -> Iterator[Differing]:
    """The number of records if it differs, and the first record that does."""
    try:
        one, other = list(_records(recorded)), list(_records(live))
    except KafkaError:
        if recorded != live:
            yield path, text_of(recorded), text_of(live)
        return
    if len(one) != len(other):
        yield f"{path}.length", str(len(one)), str(len(other))
    for number, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            yield f"{path}[{number}]", text_of(first), text_of(second)
            return


def _records(data: bytes) -> Iterable[tuple[Any, ...]]:
    """Offset, key, value and headers of each record, and its time unless it is near the present."""
    for position, header in iterate(data):
        for record in decode_records(data, position):
            timestamp = None if is_recent(record.timestamp) else record.timestamp
            value = None if header.is_control else record.value  # of a marker: coordinator epoch
            yield record.offset, record.key, value, record.headers, timestamp
