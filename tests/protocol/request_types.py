"""Writes `kohort.protocol.requests` from kio's classes of every version that is served.

    PYTHONPATH=tests python -m protocol.request_types > src/kohort/protocol/requests.py

What a handler gets is kio's request of the version that came. The classes written here have the
fields of all versions: which of them a version lacks, the handler knows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from kohort.protocol.apis import ALL_APIS, ENVELOPE, Api
from kohort.protocol.message_classes import load_request_schema
from kohort.protocol.schema import shape

HEAD = '''"""The fields of each request in all versions that are served, for type checkers.

A handler gets kio's object of the version that came, which has the fields of that version only.
Written by `PYTHONPATH=tests python -m protocol.request_types`.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID'''

PLAIN = {
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "bool": "bool",
    "uuid": "UUID",
    "float64": "float",
    "timedelta_i32": "timedelta",
    "timedelta_i64": "timedelta",
    **{f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


@dataclass
class Struct:
    """The fields of a struct by their names, newest version first."""

    types: dict[str, str] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)
    """The struct of a field, where it has one."""
    nullable: set[str] = field(default_factory=set)


def structs(api: Api) -> dict[str, Struct]:
    """The structs of an API's request by Kafka's names; the request comes last."""
    found: dict[str, Struct] = {}
    for version in range(api.max_version, api.min_version - 1, -1):
        _add(load_request_schema(api.key, version), found)
    return dict(sorted(found.items(), key=lambda item: _depth(item[1], found)))


def _add(entity_type: Any, found: dict[str, Struct]) -> str:
    struct = found.setdefault(entity_type.__name__, Struct())
    for each in fields(entity_type):
        of = shape(each)
        if of.is_struct:
            struct.inner[each.name] = element = _add(of.inner, found)
        else:
            element = PLAIN[of.kafka_type]
        struct.types.setdefault(each.name, f"tuple[{element}, ...]" if of.is_array else element)
        if of.nullable:
            struct.nullable.add(each.name)
    return str(entity_type.__name__)


def _depth(struct: Struct, found: dict[str, Struct]) -> int:
    return 1 + max((_depth(found[name], found) for name in struct.inner.values()), default=0)


def module() -> Iterator[str]:
    """The lines of the module."""
    yield HEAD
    requests = {api.name: structs(api) for api in ALL_APIS.values() if api.key != ENVELOPE}
    count = Counter(name for found in requests.values() for name in found)
    for api, found in requests.items():
        prefix = "".join(word.capitalize() for word in api.split("_"))
        for name, struct in found.items():
            yield f"\n\n@dataclass(frozen=True)\nclass {_unique(name, prefix, count)}:"
            yield from _lines(struct, prefix, count)


def _unique(name: str, prefix: str, count: Counter[str]) -> str:
    return name if count[name] == 1 else prefix + name


def _lines(struct: Struct, prefix: str, count: Counter[str]) -> Iterator[str]:
    for name, annotation in struct.types.items():
        if name in struct.inner:
            inner = struct.inner[name]
            annotation = annotation.replace(inner, _unique(inner, prefix, count))
        yield f"    {name}: {annotation}{' | None' * (name in struct.nullable)}"
    if not struct.types:
        yield "    pass"


if __name__ == "__main__":
    print("\n".join(module()))
