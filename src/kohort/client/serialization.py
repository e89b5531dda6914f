"""Serializers and deserializers of keys and values, which applications pass to the clients.

    Producer(config, value_serializer=lambda value: json.dumps(value).encode())
    Consumer(config, value_deserializer=json.loads)

A function takes what is to be converted, or that and a `SerializationContext`. It returns the
result or an awaitable of it. So those of `confluent_kafka.schema_registry` (Avro, JSON Schema,
Protobuf) fit as they are, also the asynchronous ones.

A key or value of None is a null in the log (a value: a tombstone). A function without context is
not called for it; one with a context is, as confluent-kafka calls it.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from typing_extensions import TypeVar

from kohort.client.errors import DeserializationError, SerializationError
from kohort.client.record import K, Record, V
from kohort.errors import ConfigError, caused_by, fresh
from kohort.protocol.compression import Buffer
from kohort.protocol.records import Header
from kohort.types import TopicPartition

Field: TypeAlias = Literal["key", "value"]

K_in = TypeVar("K_in", default=Buffer)
"""Type of the keys that a producer takes: bytes without a serializer."""
V_in = TypeVar("V_in", default=Buffer)
"""Type of the values."""
_T = TypeVar("_T")


class SerializationContext(NamedTuple):
    """What is converted, by the names that confluent-kafka's serializers read."""

    topic: str
    field: Field
    headers: list[Header]
    """The record's headers. A serializer may append to them."""


_Bytes: TypeAlias = Buffer | None
Serializer: TypeAlias = (
    Callable[[_T], _Bytes | Awaitable[_Bytes]]
    | Callable[[_T, SerializationContext], _Bytes | Awaitable[_Bytes]]
)
Deserializer: TypeAlias = (
    Callable[[bytes], _T | Awaitable[_T]]
    | Callable[[bytes | None, SerializationContext], _T | Awaitable[_T]]
)
Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Waits for what a function returned."""
_Convert: TypeAlias = Callable[[Any, SerializationContext], Any]


class DeserializedRecord(Record[K, V]):
    """A record whose key and value were deserialized.

    `key` and `value` raise DeserializationError where that failed. So the application handles one
    such record, and goes on with the next.
    """

    _raw: Record | None = None

    @property
    def key(self) -> K | None:
        return _outcome(self[5])

    @property
    def value(self) -> V | None:
        return _outcome(self[6])

    @property
    def raw(self) -> Record:
        """The record with key and value as the bytes that are in the log."""
        return super().raw if self._raw is None else self._raw


def _outcome(value: _T) -> _T:
    if isinstance(value, DeserializationError):
        raise fresh(value)
    return value


async def at_once(result: Awaitable[_T]) -> _T:
    """Wait on the event loop of the caller."""
    return await result


class Serializers:
    """The serializers of a producer; None for what is bytes already. Raises ConfigError."""

    def __init__(self, key: Serializer[Any] | None, value: Serializer[Any] | None) -> None:
        self._key = _converter("key_serializer", key)
        self._value = _converter("value_serializer", value)

    async def serialize(
        self, topic: str, key: Any, value: Any, headers: list[Header], wait: Wait = at_once
    ) -> tuple[Any, Any]:
        """Key and value, as bytes where there is a serializer.

        Raises SerializationError. A serializer may append to `headers`.
        """
        if self._key is not None:
            key = await _serialized(
                self._key, key, SerializationContext(topic, "key", headers), wait
            )
        if self._value is not None:
            context = SerializationContext(topic, "value", headers)
            value = await _serialized(self._value, value, context, wait)
        return key, value


class Deserializers:
    """The deserializers of a consumer; None for what stays bytes. Raises ConfigError."""

    def __init__(self, key: Deserializer[Any] | None, value: Deserializer[Any] | None) -> None:
        self._key = _converter("key_deserializer", key)
        self._value = _converter("value_deserializer", value)

    async def deserialize(
        self, record: Record, wait: Wait = at_once
    ) -> DeserializedRecord[Any, Any]:
        """The record with key and value deserialized, or with the errors of that."""
        key: Any = record.key
        value: Any = record.value
        if self._key is not None:
            key = await _deserialized(self._key, record, "key", key, wait)
        if self._value is not None:
            value = await _deserialized(self._value, record, "value", value, wait)
        deserialized = DeserializedRecord._make((*record[:5], key, value, *record[7:]))
        deserialized._raw = record
        return deserialized


def serializers(key: Serializer[Any] | None, value: Serializer[Any] | None) -> Serializers | None:
    """None if there is nothing to serialize with. Raises ConfigError."""
    return None if key is None and value is None else Serializers(key, value)


def deserializers(
    key: Deserializer[Any] | None, value: Deserializer[Any] | None
) -> Deserializers | None:
    """None if there is nothing to deserialize with. Raises ConfigError."""
    return None if key is None and value is None else Deserializers(key, value)


async def _serialized(
    convert: _Convert, value: Any, context: SerializationContext, wait: Wait
) -> Any:
    try:
        result = convert(value, context)
        if inspect.isawaitable(result):
            result = await wait(result)
        if result is not None and not isinstance(result, Buffer):
            raise TypeError(f"the serializer returned {type(result).__name__}, not bytes")
    except Exception as error:
        raise SerializationError(
            f"topic {context.topic}: the {context.field} is not serialized: "
            f"{_describe_error(error)}"
        ) from error
    return result


async def _deserialized(
    convert: _Convert, record: Record, field: Field, data: bytes | None, wait: Wait
) -> Any:
    try:
        result = convert(data, SerializationContext(record.topic, field, list(record.headers)))
        return await wait(result) if inspect.isawaitable(result) else result
    except Exception as error:
        tp = TopicPartition(record.topic, record.partition)
        failure = DeserializationError(tp, record.offset, field, data, _describe_error(error))
        return caused_by(error, failure)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def _converter(name: str, function: Any) -> _Convert | None:
    """The function with two parameters; one that takes no context gets no null either."""
    if function is None:
        return None
    if not callable(function):
        raise ConfigError(f"{name}: a function expected, not {type(function).__name__}")
    if _takes_context(function):
        convert: _Convert = function
        return convert
    return lambda value, _: None if value is None else function(value)


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function in C that does not tell
        return False
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    required = [parameter for parameter in positional if parameter.default is parameter.empty]
    # confluent-kafka's have a default for theirs.
    return len(required) > 1 or any(parameter.name == "ctx" for parameter in positional)
