"""Hypothesis strategies for kio's message classes, derived from their fields."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.message_classes import load_request_schema, load_response_schema
from kohort.protocol.schema import Shape, shape

VERSIONS = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]
"""Every API and version that is served."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def name_of(case: tuple[int, int]) -> str:
    """For test ids."""
    return f"{APIS[case[0]].name}-v{case[1]}"


def requests(api_key: int, version: int) -> st.SearchStrategy[Any]:
    return entities(load_request_schema(api_key, version))


def responses(api_key: int, version: int) -> st.SearchStrategy[Any]:
    return entities(load_response_schema(api_key, version))


@cache
def entities(entity_type: Any) -> st.SearchStrategy[Any]:
    return st.builds(
        entity_type, **{each.name: _values(shape(each)) for each in fields(entity_type)}
    )


def _values(of: Shape) -> st.SearchStrategy[Any]:
    one = entities(of.inner) if of.is_struct else _SCALARS[of.kafka_type]
    if of.is_array:
        one = st.lists(one, max_size=2).map(tuple)
    return st.none() | one if of.nullable else one


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-1, 2) | st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "t", "g", "consumer", "range"])
    | st.text(max_size=4)
    | st.just("longer " * 40),
    "bytes": st.binary(max_size=4) | st.just(bytes(300)),
    "records": st.binary(max_size=4),
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": (st.sampled_from([0, 6_000]) | _integers(32)).map(
        lambda ms: timedelta(milliseconds=ms)
    ),
    "timedelta_i64": st.integers(-1, 1 << 50).map(
        lambda ms: timedelta(milliseconds=ms) if ms >= 0 else -timedelta(milliseconds=1)
    ),
    "datetime_i64": st.integers(0, 1 << 42).map(lambda ms: _EPOCH + timedelta(milliseconds=ms)),
}
