"""The message class of each API and version: kio's, or one of `kafka_4_4` that kio lacks."""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, Final

from kio.index import load_request_schema as _of_kio_request
from kio.index import load_response_schema as _of_kio_response
from kio.schema.index import api_key_map

from kohort.protocol import kafka_4_4
from kohort.protocol.apis import kafka_name

API_NAMES: Final = api_key_map
"""Kafka's name of every API in snake case, by key, served here or not."""
API_KEYS: Final = {name: key for key, name in API_NAMES.items()}


def load_request_schema(api_key: int, version: int) -> Any:
    """The class of a request. Raises KeyError, or kio's error, for an unknown API or version."""
    if (api_key, version) in kafka_4_4.VERSIONS:
        return _of_kafka_4_4(api_key, "request")
    return _of_kio_request(api_key, version)


def load_response_schema(api_key: int, version: int) -> Any:
    """The class of a response. Raises KeyError, or kio's error, for an unknown API or version."""
    if (api_key, version) in kafka_4_4.VERSIONS:
        return _of_kafka_4_4(api_key, "response")
    return _of_kio_response(api_key, version)


def _of_kafka_4_4(api_key: int, kind: str) -> Any:
    """`kind` is "request" or "response", as the modules of `kafka_4_4`."""
    module = import_module(f"{kafka_4_4.__name__}.{kind}")
    return getattr(module, kafka_name(f"{API_NAMES[api_key]}_{kind}"))


@cache
def known_versions(api_key: int) -> tuple[int, int]:
    """Lowest and highest version of an API that has a class. Raises KeyError."""
    newer = (version for key, version in kafka_4_4.VERSIONS if key == api_key)
    numbers = [*versions_of_kio(api_key), *newer]
    return min(numbers), max(numbers)


def versions_of_kio(api_key: int) -> list[int]:
    """The versions of an API that kio has a class of. Raises KeyError."""
    modules = pkgutil.iter_modules(import_module(f"kio.schema.{API_NAMES[api_key]}").__path__)
    return [int(module.name[1:]) for module in modules if module.name[1:].isdecimal()]
