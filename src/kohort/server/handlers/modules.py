"""The handler module of an API: it has the API's name, and is imported by its first request."""

from importlib import import_module
from types import ModuleType

from kohort.protocol.apis import ALL_APIS


def handler_module(api_key: int) -> ModuleType:
    """The module that handles an API on this node. Raises KeyError for an unknown API."""
    return import_module(f"kohort.server.handlers.{ALL_APIS[api_key].name}")
