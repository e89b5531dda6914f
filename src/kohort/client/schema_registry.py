"""Avro, JSON Schema and Protobuf with the schemas of a registry, in Confluent's wire format.

    async with SchemaRegistry("http://localhost:8081") as registry:
        Producer(config, value_serializer=registry.avro_serializer(SCHEMA))
        Consumer(config, value_deserializer=registry.avro_deserializer())

The work is done by confluent-kafka's asynchronous classes (`pip install 'kohort[registry]'`): they
cache schemas, and their requests do not block the event loop. This module creates them in the event
loop at first use, limits their waits, and says what to do about errors. Options are confluent's
(`auto.register.schemas`, `use.latest.version`, `subject.name.strategy`, `normalize.schemas`, …).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final, Self

from kohort.client.serialization import SerializationContext
from kohort.errors import KohortError, fresh

_PAUSE_S: Final = 1.0
"""Time in which a request that could not be sent is not tried again."""
_MAX_FAILED: Final = 1_000
_SUBJECT_NAMES: Final = {"subject.name.strategy.type": "TOPIC"}
"""confluent-kafka's default asks the registry for associations first, which others do not have."""


class SchemaRegistryError(KohortError):
    """The registry is unreachable or refused, or bytes are not in its wire format."""


class UnknownSchemaError(SchemaRegistryError):
    """Bytes are not in the wire format, or name a schema that the registry does not have."""


class SchemaRegistry:
    """A registry by its URL, used from one event loop.

    What it returns are `Serializer`s and `Deserializer`s. `close`, or leaving its block, ends its
    connections.
    """

    def __init__(
        self,
        url: str,
        *,
        basic_auth: tuple[str, str] | None = None,
        ssl_cafile: str | None = None,
        ssl_certfile: str | None = None,
        ssl_keyfile: str | None = None,
        ssl_password: str | None = None,
        timeout_ms: int = 5_000,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """`url` may be several, separated by commas; `basic_auth` is user and password.

        `options` are confluent-kafka's of its SchemaRegistryClient. Raises ValueError for wrong
        ones, and SchemaRegistryError if packages are missing.
        """
        settings = {
            "basic.auth.user.info": None if basic_auth is None else ":".join(basic_auth),
            "ssl.ca.location": ssl_cafile,
            "ssl.certificate.location": ssl_certfile,
            "ssl.key.location": ssl_keyfile,
            "ssl.key.password": ssl_password,
        }
        config = {name: value for name, value in settings.items() if value is not None}
        limits = {"timeout": timeout_ms / 1000, "max.retries": 1, "retries.wait.ms": 200}
        self.url = re.sub(r"//[^/@]*@", "//", url)
        """Without credentials."""
        self.client: Any = _confluent("", "AsyncSchemaRegistryClient")(
            {"url": url, **limits, **config, **(options or {})}
        )
        """confluent-kafka's AsyncSchemaRegistryClient, to look up and change schemas."""
        self._failed: dict[object, tuple[float, SchemaRegistryError]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self.client.aclose()

    def avro_serializer(
        self,
        schema: Any = None,
        *,
        to_dict: Callable[[Any, Any], Any] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "RegistryFunction":
        """Of dicts, or of what `to_dict(value, context)` makes dicts of.

        `schema` is the text of an Avro schema or confluent's Schema; None with an option such as
        `use.latest.version`.
        """
        create = _confluent("avro", "AsyncAvroSerializer")
        return self._function(options, lambda config: create(self.client, schema, to_dict, config))

    def avro_deserializer(
        self,
        schema: Any = None,
        *,
        from_dict: Callable[[Any, Any], Any] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "RegistryFunction":
        """To dicts, or to what `from_dict(dict, context)` makes of them.

        `schema` is the reader's; None: the one that the record was written with.
        """
        create = _confluent("avro", "AsyncAvroDeserializer")
        return self._function(
            options, lambda config: create(self.client, schema, from_dict, conf=config)
        )

    def json_schema_serializer(
        self,
        schema: Any = None,
        *,
        to_dict: Callable[[Any, Any], Any] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "RegistryFunction":
        """Of dicts that the JSON Schema allows; parameters as of `avro_serializer`."""
        create = _confluent("json_schema", "AsyncJSONSerializer")
        return self._function(options, lambda config: create(schema, self.client, to_dict, config))

    def json_schema_deserializer(
        self,
        schema: Any = None,
        *,
        from_dict: Callable[[Any, Any], Any] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "RegistryFunction":
        """To dicts that are checked against the schema; parameters as of `avro_deserializer`."""
        create = _confluent("json_schema", "AsyncJSONDeserializer")
        return self._function(
            options, lambda config: create(schema, from_dict, self.client, config)
        )

    def protobuf_serializer(
        self, message: type[Any], *, options: Mapping[str, object] | None = None
    ) -> "RegistryFunction":
        """Of messages of a generated class."""
        create = _confluent("protobuf", "AsyncProtobufSerializer")
        return self._function(options, lambda config: create(message, self.client, config))

    def protobuf_deserializer(
        self, message: type[Any], *, options: Mapping[str, object] | None = None
    ) -> "RegistryFunction":
        """To messages of a generated class."""
        create = _confluent("protobuf", "AsyncProtobufDeserializer")
        return self._function(options, lambda config: create(message, config, self.client))

    def _function(
        self,
        options: Mapping[str, object] | None,
        create: Callable[[dict[str, object]], Awaitable[Any]],
    ) -> "RegistryFunction":
        config = {**_SUBJECT_NAMES, **(options or {})}
        return RegistryFunction(self, lambda: create(config))

    def recent_failure(self, schema: object) -> SchemaRegistryError | None:
        """Why what needs the same schema could not ask for it a moment ago.

        A batch of many records does not wait for an unreachable registry once for each.
        """
        expires_at, error = self._failed.get(schema, (0.0, None))
        return error if asyncio.get_running_loop().time() < expires_at else None

    def explained(
        self, error: Exception, content: object, schema: object
    ) -> SchemaRegistryError | None:
        """The registry's address, and what to do; None for an error that is not about it."""
        advice = _advice(error, content)
        if advice is None:
            return None
        status = getattr(error, "http_status_code", None)
        is_unknown = isinstance(content, bytes) and status in (None, 404)
        if is_unknown and not _is_unreachable(error):
            return UnknownSchemaError(f"schema registry {self.url}: {advice}")
        explained = SchemaRegistryError(f"schema registry {self.url}: {advice}")
        if _is_unreachable(error):
            if len(self._failed) >= _MAX_FAILED:
                self._failed.clear()
            self._failed[schema] = asyncio.get_running_loop().time() + _PAUSE_S, explained
        return explained


class RegistryFunction:
    """A serializer or deserializer of confluent-kafka's, created at its first use."""

    def __init__(self, registry: SchemaRegistry, create: Callable[[], Awaitable[Any]]) -> None:
        self._registry = registry
        self._create = create
        self._convert: Any = None

    async def __call__(self, content: Any, ctx: SerializationContext) -> Any:
        """What `content` is converted to; None stays None. Raises SchemaRegistryError."""
        if content is None:
            return None
        schema = content[:5] if isinstance(content, bytes) else (ctx.topic, ctx.field)
        if (failure := self._registry.recent_failure(schema)) is not None:
            raise fresh(failure)
        try:
            if self._convert is None:
                self._convert = await self._create()
            return await self._convert(content, ctx)
        except Exception as error:
            explained = self._registry.explained(error, content, schema)
            if explained is None:
                raise
            raise fresh(explained) from error


def _confluent(module: str, name: str) -> Any:
    try:
        module_of_name = import_module(
            f"confluent_kafka.schema_registry.{module}".removesuffix(".")
        )
    except ModuleNotFoundError as error:
        raise SchemaRegistryError(
            f"schema registries need {error.name}: pip install 'kohort[registry]'"
        ) from error
    return getattr(module_of_name, name)


def _is_unreachable(error: Exception) -> bool:
    """Whether no response came: an error of httpx, or of its successor httpx2."""
    return any(
        base.__name__ == "TransportError" and base.__module__.startswith("httpx")
        for base in type(error).__mro__
    )


def _advice(error: Exception, content: object) -> str | None:
    """What is wrong, and what to do; None for an error that is not about the registry."""
    if _is_unreachable(error):
        text = f"unreachable ({type(error).__name__}: {error})"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return f"{text}; set ssl_cafile to the certificate of its authority"
        return f"{text}; check the url, and that the registry runs there"
    if (status := getattr(error, "http_status_code", None)) is not None:
        return f"{error}; {_remedy(status, error)}"
    if isinstance(content, bytes) and (len(content) < 6 or content[0] > 1):
        return (
            f"{content[:6]!r}… is not in Confluent's wire format, a byte 0 and four bytes with the "
            "id of a schema: the record was not written with a registry"
        )
    return None


def _remedy(status: int, error: Exception) -> str:
    match status:
        case 401 | 403:
            return "check basic_auth, and what this user may do"
        case 404 if getattr(error, "error_code", None) == 40403:
            return "the record was written with another registry, or the schema was deleted"
        case 404:
            return "check the url's path; register the schema, or set auto.register.schemas"
        case 409:
            return (
                "the schema is not compatible with the subject's versions: change it compatibly, "
                "or use another subject"
            )
        case 422:
            return "check the schema"
        case _:
            return "see the registry's log"
