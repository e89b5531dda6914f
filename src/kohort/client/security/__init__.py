"""TLS and SASL of a client: settings, key stores, tokens, and properties for them.

`ClientCredentials` is imported when it is first used: it brings an HTTP client.
"""

from typing import TYPE_CHECKING

from kohort.client.security.security_properties import (
    SECURITY_PROPERTIES,
    security_of_file,
    security_of_properties,
)
from kohort.client.security.settings import PLAINTEXT, Exchange, Security, scram

if TYPE_CHECKING:
    from kohort.client.security.client_credentials import ClientCredentials

__all__ = [
    "PLAINTEXT",
    "SECURITY_PROPERTIES",
    "ClientCredentials",
    "Exchange",
    "Security",
    "scram",
    "security_of_file",
    "security_of_properties",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name != "ClientCredentials":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from kohort.client.security.client_credentials import ClientCredentials

        return ClientCredentials
