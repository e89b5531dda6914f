"""Hints for options that are named as another client, or Kafka itself, names them."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeVar, get_args

from kohort.errors import ConfigError
from kohort.util.text import did_you_mean

C = TypeVar("C", bound=type)

_NAMED_HERE: Final = {
    "auto_offset_reset": "start_offset",
    "bootstrap_server": "bootstrap",
    "bootstrap_servers": "bootstrap",
    "brokers": "bootstrap",
    "client_rack": "rack",
    "compression_codec": "compression",
    "compression_type": "compression",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "group_instance_id": "instance_id",
    "group_protocol": "protocol",
    "group_remote_assignor": "remote_assignor",
    "max_batch_size": "batch_size",
    "message_max_bytes": "max_request_size",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap",
    "partition_assignment_strategy": "assignors",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "sasl_mechanism": "mechanism",
    "sasl_mechanisms": "mechanism",
    "sasl_password": "password",
    "sasl_plain_password": "password",
    "sasl_plain_username": "username",
    "sasl_username": "username",
    "security_protocol": "protocol",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
}
"""Name in Kafka or another client, with underscores → name here."""
_ALSO: Final = {"auto_offset_reset": "start_offset"}
"""Kafka's names that are accepted besides the names here."""
_IN_CLIENT_CONFIG: Final = "pass it to ClientConfig(bootstrap=…, client_id=…, security=…)"
_TOPICS: Final = "it is an option of ConsumerGroup; Consumer has assign_topics(…)"
_IN_GROUP: Final = "it is an option of ConsumerGroup"
_IN_READERS: Final = "it is an option of Consumer and ConsumerGroup"
_IN_PRODUCER: Final = "it is an option of Producer"
_RETRIES: Final = "requests are retried for default_api_timeout_ms, records for delivery_timeout_ms"
_PAUSES: Final = "the pauses between attempts to connect are those of retries"
_BOOTSTRAP: Final = "default_api_timeout_ms limits how long servers are tried"
_METRICS: Final = "metrics() has them, without an option"
_INSTEAD: Final = {
    **dict.fromkeys(("bootstrap", "client_id", "security"), _IN_CLIENT_CONFIG),
    **dict.fromkeys(("pattern", "topic", "topics"), _TOPICS),
    **dict.fromkeys(
        (
            *("assignors", "check_crcs", "drain_timeout_ms", "heartbeat_interval_ms"),
            *("instance_id", "max_poll_interval_ms", "protocol", "rebalance_timeout_ms"),
            *("remote_assignor", "session_timeout_ms"),
        ),
        _IN_GROUP,
    ),
    **dict.fromkeys(
        (
            *("auto_commit_interval_ms", "enable_auto_commit", "fetch_max_bytes"),
            *("fetch_max_wait_ms", "fetch_min_bytes", "group_id", "isolation_level"),
            *("key_deserializer", "max_partition_fetch_bytes", "start_offset"),
            "value_deserializer",
        ),
        _IN_READERS,
    ),
    "rack": "it is an option of ConsumerGroup, and of Consumer as client_rack",
    **dict.fromkeys(
        (
            *("acks", "batch_size", "buffer_memory", "compression", "compression_level"),
            *("delivery_timeout_ms", "enable_idempotence", "key_serializer", "linger_ms"),
            *("max_block_ms", "max_request_size", "partitioner", "transaction_timeout_ms"),
            *("transactional_id", "value_serializer"),
        ),
        _IN_PRODUCER,
    ),
    **dict.fromkeys(
        ("api_version", "api_version_auto_timeout_ms", "broker_version_fallback"),
        "each connection requests the versions that its broker speaks",
    ),
    **dict.fromkeys(("bootstrap_resolve_timeout_ms", "bootstrap_timeout_ms"), _BOOTSTRAP),
    "buffer_memory_allocation_strategy": "memory is taken when records come, up to buffer_memory",
    "client_dns_lookup": "all addresses of a name are tried",
    "consumer_timeout_ms": "next_batch(max_wait_ms=…), of a blocking group "
    "batches(max_wait_ms=…), ends the wait",
    "default_offset_commit_callback": "commit raises its error",
    "exclude_internal_topics": "a pattern never matches internal topics",
    "loop": "the client uses the event loop that runs",
    "max_poll_records": "batches are those of the log; max_partition_fetch_bytes limits a fetch",
    **dict.fromkeys(("metric_reporters", "metrics_enabled", "metrics_num_samples"), _METRICS),
    **dict.fromkeys(("metrics_sample_window_ms", "metric_group_prefix"), _METRICS),
    "partitioner_rack_aware": "Producer takes a function as partitioner",
    "receive_message_max_bytes": "max_response_bytes limits what is accepted",
    "reconnect_backoff_ms": f"{_PAUSES}, retry_backoff_ms",
    "reconnect_backoff_max_ms": f"{_PAUSES}, up to retry_backoff_max_ms",
    **dict.fromkeys(("retries", "message_send_max_retries"), _RETRIES),
}
"""Advice instead of an option that the class does not have."""
_NOTHING_LIKE_IT: Final = frozenset(
    {
        *("allow_auto_create_topics", "enable_incremental_fetch_sessions", "kafka_client"),
        *("proxy_url", "receive_buffer_bytes", "selector", "send_buffer_bytes", "socket_options"),
        "socks5_proxy",
    }
)
"""Options of other clients that no option here is near to, however much the letters are alike."""
_SECURITY: Final = "give security=Security(protocol=…, mechanism=…, username=…, ssl_cafile=…)"
_KERBEROS: Final = "there is no Kerberos (GSSAPI), but PLAIN, SCRAM, OAUTHBEARER, and TLS"
_IN_CONTEXT: Final = "give it to an ssl.SSLContext, and that as Security(ssl_context=…)"
_BY_NAME: Final = {
    "Admin": "Admin(bootstrap='localhost:9092')",
    "ClientConfig": "ClientConfig(bootstrap='localhost:9092')",
    "Cluster": "Cluster(bootstrap='localhost:9092')",
    "Consumer": "Consumer(bootstrap='localhost:9092', group_id='billing')",
    "ConsumerGroup": "ConsumerGroup('billing', topics=['orders'], bootstrap='localhost:9092')",
    "DeadLetters": "DeadLetters(producer, topic='orders.dead')",
    "Fetcher": "Fetcher(cluster)",
    "GroupConfig": "GroupConfig(group_id='billing', topics=['orders'])",
    "GroupMetadata": "GroupMetadata(group_id='billing')",
    "OffsetAndMetadata": "OffsetAndMetadata(offset=5, metadata='')",
    "Producer": "Producer(bootstrap='localhost:9092', acks='all')",
    "Security": "Security(protocol='SASL_SSL', mechanism='PLAIN', username='me', password='…')",
}
"""How each class is created."""


def unknown_option(owner: str, name: str, existing: Iterable[str]) -> ConfigError:
    """The error for an option that `owner` does not have; its text suggests another name."""
    names = sorted(existing)
    plain = name.lower().replace(".", "_").replace("-", "_")
    own_name = plain if plain in names else _NAMED_HERE.get(plain)
    of_security = plain == "security_protocol" or plain.startswith(("sasl_", "ssl_"))
    if plain.startswith("sasl_kerberos_"):
        hint = f"; {_KERBEROS}"
    elif plain in ("ssl_ciphers", "ssl_crlfile"):
        hint = f"; {_IN_CONTEXT}"
    elif of_security and "mechanism" not in names:
        hint = f"; {_SECURITY}"
    elif own_name in names:
        hint = f"; {own_name} is its name here"
    elif (instead := _INSTEAD.get(plain) or _INSTEAD.get(own_name or "")) is not None:
        hint = f"; {instead}"
    elif plain in _NOTHING_LIKE_IT:
        hint = ""
    else:
        hint = did_you_mean(name, names)
    return ConfigError(f"{owner} has no option {name}{hint}")


def with_known_names(
    owner: str, options: Mapping[str, Any], option_names: Collection[str]
) -> dict[str, Any]:
    """The options under their names here.

    Raises ConfigError with a hint for a name that is not among `option_names`, and for one given
    under two names.
    """
    renamed: dict[str, Any] = {}
    for name, value in options.items():
        own_name = _ALSO.get(name, name)
        if own_name not in option_names:
            raise unknown_option(owner, name, option_names)
        if own_name in renamed:
            duplicates = " and ".join(
                option for option in options if _ALSO.get(option, option) == own_name
            )
            raise ConfigError(f"{owner}: {duplicates} are one option, give one of them")
        renamed[own_name] = value
    return renamed


class _Arguments:
    """The arguments that the `__init__` of a class takes."""

    def __init__(self, owner: str, create: Callable[..., None]) -> None:
        parameters = list(inspect.signature(create).parameters.values())[1:]
        named = [
            parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
        ]
        names = {parameter.name for parameter in named}
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                names |= _options_of(parameter).keys()
        self.owner = owner
        self.names = frozenset(names - _ALSO.keys())
        self._by_position = [
            parameter.name for parameter in named if parameter.kind is not parameter.KEYWORD_ONLY
        ]
        self._required = [
            parameter.name for parameter in named if parameter.default is parameter.empty
        ]

    def validate(self, count: int, options: Mapping[str, Any]) -> None:
        """Raise ConfigError unless `count` positional arguments fit the named ones."""
        by_position = self._by_position[:count]
        if count > len(by_position):
            most = (
                f"only {' and '.join(by_position)} may be"
                if by_position
                else "all have to be named"
            )
            number = "1 argument is" if count == 1 else f"{count} arguments are"
            raise self._error(f"{number} given by position, {most}")
        if twice := [name for name in by_position if name in options]:
            raise self._error(f"{twice[0]} is given twice, by position and by name")
        if absent := [name for name in self._required if name not in (*by_position, *options)]:
            raise self._error(f"{absent[0]} is missing")

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self.owner}: {text}; write {_BY_NAME[self.owner]}")


def checks_arguments(cls: C) -> C:
    """Have a class raise ConfigError with a hint for arguments that its `__init__` does not take.

    Keywords are passed on under their names here. Type checkers see the class as it is.
    """
    create: Callable[..., None] = cls.__init__  # type: ignore[misc]
    arguments = _Arguments(cls.__name__, create)

    @functools.wraps(create)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        named = with_known_names(arguments.owner, options, arguments.names)
        arguments.validate(len(args), named)
        create(self, *args, **named)

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def shows_options(*configs: Any) -> Callable[[C], C]:
    """Have `help` show the options of `**options: Unpack[…]`, with the defaults of `configs`."""

    def with_signature(cls: C) -> C:
        signature = inspect.signature(cls)
        *named, var_keyword = signature.parameters.values()
        # The first config has a field that is in both.
        options = {field.name: field for config in reversed(configs) for field in fields(config)}
        keywords = [_keyword(options[name]) for name in _options_of(var_keyword) if name in options]
        cls.__signature__ = signature.replace(parameters=[*named, *keywords])  # type: ignore[attr-defined]
        return cls

    return with_signature


def _options_of(parameter: inspect.Parameter) -> Mapping[str, Any]:
    """The options that `**options: Unpack[TypedDict]` takes, with their types."""
    types: Mapping[str, Any] = get_args(parameter.annotation)[0].__annotations__
    return types


def _keyword(option: "Field[Any]") -> inspect.Parameter:
    default = option.default if option.default_factory is MISSING else option.default_factory()
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type
    )


def explains_arguments(cls: C) -> C:
    """As `checks_arguments` for values that are created often: checks once Python has refused."""
    create: Callable[..., None] = cls.__init__  # type: ignore[misc]
    arguments = _Arguments(cls.__name__, create)

    @functools.wraps(create)
    def explained(self: Any, *args: Any, **options: Any) -> None:
        try:
            create(self, *args, **options)
        except TypeError:
            arguments.validate(
                len(args), with_known_names(arguments.owner, options, arguments.names)
            )
            raise

    cls.__init__ = explained  # type: ignore[misc]
    return cls
