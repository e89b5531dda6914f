"""Arguments and results of verbs as JSON, by their types.

| Python | JSON |
|---|---|
| `bytes` | a string in base64 |
| `TopicPartition` | a string: "orders-0" |
| `Mapping[tuple[str, int], int]`: offsets by partition | an object: {"orders-0": 42} |
| a dataclass | an object with its fields and properties |

Other types are those that JSON has. A type that is not here cannot be an argument or result.
"""

import base64
import binascii
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from kohort.errors import KohortError
from kohort.types import TopicPartition

_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_OFFSETS_KEY: Final = tuple[str, int]
_PARTITION: Final = {"type": "string", "pattern": "^.+-[0-9]+$", "examples": ["orders-0"]}


class InvalidValueError(KohortError):
    """A value is not of the type that its place has; the text says which one is expected."""


def schema_of(kind: Any) -> dict[str, Any]:
    """JSON Schema of a type. Dataclasses are references to `components`."""
    if kind is object:
        return {}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if kind is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    if kind is types.NoneType:
        return {"type": "null"}
    if kind is TopicPartition:
        return dict(_PARTITION)
    if is_dataclass(kind):
        return {"$ref": f"#/components/schemas/{_name(kind)}"}
    return _schema_of_generic(get_origin(kind), get_args(kind))


def _schema_of_generic(origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(each) for each in args]}
    if origin is Mapping:
        names = {"propertyNames": _PARTITION} if args[0] == _OFFSETS_KEY else {}
        return {"type": "object", "additionalProperties": schema_of(args[1]), **names}
    items = _items(origin, args)
    if items is not None:
        return {"type": "array", "items": schema_of(items)}
    assert origin is tuple, origin
    places = [schema_of(each) for each in args]
    return {"type": "array", "prefixItems": places, "minItems": len(args), "maxItems": len(args)}


def component_schemas(kind: Any) -> dict[str, dict[str, Any]]:
    """JSON Schemas of the dataclasses in a type, by name."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(kind, type) and is_dataclass(kind):
        members = _members(kind)
        found[_name(kind)] = {
            "type": "object",
            "description": (kind.__doc__ or "").partition("\n")[0],
            "properties": {name: schema_of(each) for name, each in members.items()},
            "required": list(members),
        }
        inner: Sequence[Any] = tuple(members.values())
    else:
        inner = get_args(kind)
    for each in inner:
        found |= component_schemas(each)
    return found


def encode(value: object) -> Any:
    """A value of a type that `schema_of` has, for `json.dumps`."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, Mapping):
        return {_key_text(key): encode(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    if is_dataclass(value):
        return {name: encode(getattr(value, name)) for name in _members(type(value))}
    return value


def decode(kind: Any, value: Any, at: str) -> Any:
    """The value of a type in `json.loads`'s result; `at` names its place in messages.

    Raises InvalidValueError.
    """
    if kind is object:
        return value
    if kind in _SCALARS:
        return _scalar(kind, value, at)
    if kind is bytes:
        return _bytes(value, at)
    if kind is types.NoneType:
        return _expect(value is None, "null", value, at)
    if kind is TopicPartition:
        return _partition(value, at)
    if is_dataclass(kind):
        return _instance(kind, value, at)
    return _decode_generic(get_origin(kind), get_args(kind), value, at)


def _instance(kind: Any, value: Any, at: str) -> Any:
    hints = get_type_hints(kind)
    given = _expect(isinstance(value, dict), "an object", value, at)
    return kind(
        **{
            each.name: decode(hints[each.name], given.get(each.name), f"{at}.{each.name}")
            for each in fields(kind)
        }
    )


def _decode_generic(origin: Any, args: tuple[Any, ...], value: Any, at: str) -> Any:
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in args:
            return None
        (kind,) = (each for each in args if each is not types.NoneType)
        return decode(kind, value, at)
    if origin is Mapping:
        given = _expect(isinstance(value, dict), "an object", value, at)
        by_partition = args[0] == _OFFSETS_KEY
        return {
            tuple(_partition(key, at)) if by_partition else key: decode(
                args[1], each, f"{at}.{key}"
            )
            for key, each in given.items()
        }
    given = _expect(isinstance(value, list), "an array", value, at)
    items = _items(origin, args)
    if items is None:
        _expect(len(given) == len(args), f"an array of {len(args)}", value, at)
        return tuple(
            decode(kind, each, f"{at}[{i}]")
            for i, (kind, each) in enumerate(zip(args, given, strict=True))
        )
    decoded = [decode(items, each, f"{at}[{i}]") for i, each in enumerate(given)]
    return tuple(decoded) if origin is tuple else decoded


def _items(origin: Any, args: tuple[Any, ...]) -> Any:
    """Type of the items of a sequence of any length; None for a tuple of fixed places."""
    if origin in (list, Sequence) or (origin is tuple and args[-1] is Ellipsis):
        return args[0]
    return None


def _name(kind: Any) -> str:
    return str(kind.__name__)


def _members(kind: Any) -> dict[str, Any]:
    """Types of the fields and the properties of a dataclass."""
    hints = get_type_hints(kind)
    own = {each.name: hints[each.name] for each in fields(kind)}
    properties = {
        name: get_type_hints(each.fget)["return"]
        for name, each in vars(kind).items()
        if isinstance(each, property)
    }
    return own | properties


def _key_text(key: object) -> str:
    return str(TopicPartition(*key)) if isinstance(key, tuple) else str(key)


def _scalar(kind: type, value: Any, at: str) -> Any:
    accepted = (int, float) if kind is float else kind
    is_right = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
    is_right = is_right and (not isinstance(value, float) or math.isfinite(value))
    return _expect(is_right, f"{_article(_SCALARS[kind])} {_SCALARS[kind]}", value, at)


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _bytes(value: Any, at: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InvalidValueError(f"{at}: expected bytes in base64, not {value!r}") from None


def _partition(value: Any, at: str) -> TopicPartition:
    topic, dash, number = value.rpartition("-") if isinstance(value, str) else ("", "", "")
    _expect(bool(dash) and number.isdecimal(), 'TOPIC-PARTITION such as "orders-0"', value, at)
    return TopicPartition(topic, int(number))


def _expect(holds: bool, what: str, value: Any, at: str) -> Any:
    if not holds:
        raise InvalidValueError(f"{at}: expected {what}, not {value!r}")
    return value
