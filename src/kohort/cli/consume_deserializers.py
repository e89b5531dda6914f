"""Deserializers of `kohort consume -s`: pack-strings, and Avro with a schema registry.

Keys and values that are null or empty are not deserialized, as in kcat.
"""

import datetime
import decimal
import json
import math
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from kohort.cli.message_format import JsonText
from kohort.cli.pack_format import unpacker
from kohort.client.serialization import (
    Deserializer,
    Deserializers,
    SerializationContext,
    deserializers,
)
from kohort.errors import ConfigError

AVRO: Final = "avro"
FIELDS: Final = ("key", "value")


def parse_serdes(serdes_options: Sequence[str], registry: str | None) -> dict[str, str]:
    """The deserializers of `-s` for `key` and `value`; the last one counts. Raises ConfigError."""
    serdes_of_field: dict[str, str] = {}
    for word in serdes_options:
        field, equals, serdes = word.partition("=")
        fields = {field: serdes} if equals and field in ("key", "value") else {}
        serdes_of_field |= fields or {"key": word, "value": word}
    for serdes in serdes_of_field.values():
        if serdes == AVRO and not registry:
            raise ConfigError("-s avro: needs a schema registry, by -r URL")
        if serdes != AVRO:
            unpacker(serdes)
    return serdes_of_field


@asynccontextmanager
async def opened_deserializers(
    serdes: dict[str, str], registry: str | None
) -> AsyncIterator[Deserializers | None]:
    """The deserializers, None without `-s`. Raises SchemaRegistryError if packages are missing."""
    packs = {field: _unpacker(pack) for field, pack in serdes.items() if pack != AVRO}
    if AVRO not in serdes.values():
        yield deserializers(packs.get("key"), packs.get("value"))
        return
    from kohort.client.schema_registry import SchemaRegistry

    assert registry is not None
    async with SchemaRegistry(registry) as opened:
        avro = _avro_text(opened.avro_deserializer())
        yield deserializers(
            *(packs.get(field, avro if field in serdes else None) for field in FIELDS)
        )


def _unpacker(pack: str) -> Deserializer[bytes]:
    unpack = unpacker(pack)
    return lambda data: unpack(data) if data else data


def _avro_text(deserialize: Any) -> Deserializer[bytes | None]:
    async def text(data: bytes | None, ctx: SerializationContext) -> bytes | None:
        if not data:
            return data
        value = _finite(await deserialize(data, ctx))
        schema_id = int.from_bytes(data[1:5], "big")
        text = json.dumps(value, default=_as_json, ensure_ascii=False, allow_nan=False)
        return JsonText(text, schema_id)

    return text


def _finite(value: Any) -> Any:
    """`value` with the numbers that JSON lacks as "NaN", "Infinity" and "-Infinity".

    Java's Avro writes these strings, too.
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value


def _as_json(value: object) -> object:
    """Avro's types that JSON lacks; bytes as in Avro's JSON encoding."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")
