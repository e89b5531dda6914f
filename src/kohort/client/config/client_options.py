"""The options of the classes of the client, as type checkers and editors see them.

`ClientConfig` has their meanings and defaults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict

from kohort.client.config.start_offset import StartOffset
from kohort.client.security import Security


class ConnectionOptions(TypedDict, total=False):
    """The fields of `ClientConfig` that a producer has no option of the same name for."""

    bootstrap: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    max_response_bytes: int
    security: Security


class ClientOptions(ConnectionOptions, total=False):
    """The fields of `ClientConfig`."""

    max_in_flight_requests_per_connection: int


class ReaderOptions(ClientOptions, total=False):
    """The fields of `ClientConfig`, and Kafka's name of `start_offset`."""

    auto_offset_reset: StartOffset


def split_options(
    options: Mapping[str, Any], config_class: type[Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that are fields of the dataclass `config_class`, and the others."""
    names = {field.name for field in fields(config_class)}
    own_options = {name: value for name, value in options.items() if name in names}
    return own_options, {name: value for name, value in options.items() if name not in names}
