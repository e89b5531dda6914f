"""Plain values <-> kio's message classes, for requests of any API and version.

Versions that kio does not have yet are in `newer_messages.py`.

A scenario writes a request as keyword arguments with Kafka's field names in snake case (`_ms` may
be said or left out, as kio leaves it out): integers for durations and timestamps, dicts for nested
structures, any iterable for arrays. A field that the version does not have is dropped, one that is
not given takes the schema's default or the zero of its type, as Kafka's own generated classes do.

The way back, `plain`, makes a response into dicts, lists, strings, numbers and None, which is what
transcripts hold: error codes by name and number, bytes in hex, record batches as a list of their
headers.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import io
import pkgutil
import re
import uuid
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Any, get_args, get_origin

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import PayloadEntityType, api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import TZAware, i32Timedelta, i64, i64Timedelta

from kohort_conformance import newer_messages
from kohort_conformance.batches import describe
from kohort_conformance.plain import Plain


class UndecodableResponseError(Exception):
    """A response that is not what its API and version say."""


@cache
def request_class(api: str, version: int) -> type[Any]:
    """The class of a request, by Kafka's name of the API ("JoinGroup")."""
    cls: type[Any] = _class(api, version, EntityType.request)
    return cls


@cache
def response_class(api: str, version: int) -> type[Any]:
    """The class of a response, by Kafka's name of the API."""
    return _with_numeric_times(_class(api, version, EntityType.response))


def _class(api: str, version: int, kind: PayloadEntityType) -> Any:
    newer = newer_messages.NEWER.get((_snake(api), version, kind))
    return load_entity_schema(_snake(api), version, kind) if newer is None else newer


MARKS = (
    "__module__", "__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__",
)  # fmt: skip
"""What a class of kio has besides its fields."""


@cache
def _with_numeric_times(cls: type[Any]) -> type[Any]:
    """The class with an integer in place of each time that is not nullable.

    Kafka writes -1 there when there is no time, which kio refuses to read.
    """
    replaced = [(item.name, *_with_numeric_time(item)) for item in fields(cls)]
    if all(type_ is item.type for item, (_, type_, _) in zip(fields(cls), replaced, strict=True)):
        return cls
    marks = {name: getattr(cls, name) for name in MARKS}
    made = make_dataclass(cls.__name__, replaced, namespace=marks, frozen=True, kw_only=True)
    made.__module__ = cls.__module__  # since Python 3.12 it is that of this module
    return made


def _with_numeric_time(item: Field[Any]) -> tuple[Any, Any]:
    """The type of a field and what dataclasses know of it otherwise."""
    type_, metadata = item.type, dict(item.metadata)
    if type_ is TZAware:
        type_, metadata["kafka_type"] = i64, "int64"
    elif get_origin(type_) is tuple and is_dataclass(element := get_args(type_)[0]):
        assert isinstance(element, type)
        inner = _with_numeric_times(element)
        type_ = type_ if inner is element else tuple[inner, ...]  # type: ignore[valid-type]
    return type_, field(default=item.default, metadata=metadata)


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def encode_request(
    api: str, version: int, values: Mapping[str, Any], correlation_id: int, client_id: str | None
) -> bytes:
    """One request, header and body, without the four bytes of its size."""
    cls = request_class(api, version)
    header_class = cls.__header_schema__
    header = build(
        header_class,
        {
            "request_api_key": cls.__api_key__,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        },
    )
    with io.BytesIO() as out:
        entity_writer(header_class)(out, header)
        entity_writer(cls)(out, build(cls, values))
        return out.getvalue()


def decode_response(api: str, version: int, frame: bytes) -> dict[str, Plain]:
    """The body of a response as plain values; bytes left over become `trailing_bytes`."""
    cls = response_class(api, version)
    try:
        _, header_size = entity_reader(cls.__header_schema__)(frame, 0)
        entity, size = entity_reader(cls)(frame, header_size)
    except Exception as error:
        raise UndecodableResponseError(f"{type(error).__name__}: {error}") from error
    response = plain(entity)
    assert isinstance(response, dict)
    if rest := len(frame) - header_size - size:
        response["trailing_bytes"] = rest
    return response


# --- plain values -> entities


def build(cls: type[Any], values: Mapping[str, Any]) -> Any:
    """An instance of one of kio's classes.

    A name that no version of it would know is the scenario's mistake.
    """
    given = dict(values)
    if strange := given.keys() - _names_of_any_version(cls.__module__, cls.__name__):
        raise ValueError(f"{cls.__name__} has no {', '.join(sorted(strange))} in any version")
    arguments = {}
    for item in fields(cls):
        name = item.name if item.name in given else f"{item.name}_ms"
        if name in given:
            arguments[item.name] = _value(item.type, given[name])
        elif item.default is MISSING:
            arguments[item.name] = _zero(item)
    return cls(**arguments)


@cache
def _names_of_any_version(module_name: str, class_name: str) -> frozenset[str]:
    """The fields of all versions of a class."""
    newer: Any = getattr(newer_messages, class_name, None)
    if module_name == newer_messages.__name__:
        kind = "request" if "request" in newer.__header_schema__.__module__ else "response"
        module_name = f"kio.schema.{api_key_map[newer.__api_key__]}.any.{kind}"
    classes = [newer, *(getattr(module, class_name, None) for module in _versions(module_name))]
    names = {item.name for one in classes if one is not None for item in fields(one)}
    return frozenset({*names, *(f"{name}_ms" for name in names)})


def _versions(module_name: str) -> list[ModuleType]:
    """kio's modules that differ from this one only in the version: kio.schema.NAME.VERSION.KIND."""
    package, _, kind = module_name.rpartition(".")
    api = package.rpartition(".")[0]
    versions = pkgutil.iter_modules(importlib.import_module(api).__path__)
    return [importlib.import_module(f"{api}.{one.name}.{kind}") for one in versions]


def _value(type_: Any, value: Any) -> Any:
    if value is None:
        return None
    type_ = _without_none(type_)
    if get_origin(type_) is tuple:
        element = get_args(type_)[0]
        return tuple(_value(element, one) for one in value)
    if is_dataclass(type_):
        assert isinstance(type_, type)
        return build(type_, value) if isinstance(value, Mapping) else value
    if isinstance(type_, type) and issubclass(type_, (i32Timedelta, i64Timedelta)):
        return type_.parse(datetime.timedelta(milliseconds=value))
    if isinstance(type_, type) and issubclass(type_, datetime.datetime):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    return value


def _without_none(type_: Any) -> Any:
    if get_origin(type_) is UnionType:
        return next(one for one in get_args(type_) if one is not NoneType)
    return type_


def _zero(item: Field[Any]) -> Any:
    if get_origin(item.type) is UnionType:
        return None
    type_ = _without_none(item.type)
    if get_origin(type_) is tuple:
        return ()
    if is_dataclass(type_):
        assert isinstance(type_, type)
        return build(type_, {})
    match item.metadata["kafka_type"]:
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta()
        case "bool":
            return False
        case _:
            return 0


# --- entities -> plain values


def plain(value: Any) -> Plain:
    """An entity, or any value inside one, as JSON's values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain_field(item, getattr(value, item.name)) for item in fields(value)}
    match value:
        case ErrorCode():
            return f"{value.name.upper()} ({value.value})"
        case None | bool() | str() | float():
            return value
        case enum.IntEnum() | int():
            return int(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case uuid.UUID():
            return str(value)
        case datetime.timedelta():
            return round(value / datetime.timedelta(milliseconds=1))
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case tuple() | list():
            return [plain(one) for one in value]
    raise TypeError(f"no plain form for {type(value).__name__}")


def _plain_field(item: Field[Any], value: Any) -> Plain:
    if item.metadata.get("kafka_type") == "records" and value is not None:
        return describe(bytes(value))
    return plain(value)
