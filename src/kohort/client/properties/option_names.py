"""Hints for options that are named as another client, or Kafka itself, names them."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar, get_args

from kohort.errors import ConfigError
from kohort.suggestions import did_you_mean

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
"""Kafka's names that are accepted beside those here."""
_IN_CLIENT_CONFIG: Final = "pass it to ClientConfig(bootstrap=…, client_id=…, security=…)"
_IN_GROUP_ALONE: Final = "it is an option of ConsumerGroup; Consumer has assign_topics(…)"
_IN_GROUP: Final = "it is an option of Consumer and ConsumerGroup"
_IN_PRODUCER: Final = "it is an option of Producer"
_INSTEAD: Final = {
    "bootstrap": _IN_CLIENT_CONFIG,
    "client_id": _IN_CLIENT_CONFIG,
    "security": _IN_CLIENT_CONFIG,
    "group_id": _IN_GROUP,
    "key_deserializer": _IN_GROUP,
    "pattern": _IN_GROUP_ALONE,
    "start_offset": _IN_GROUP,
    "topic": _IN_GROUP_ALONE,
    "topics": _IN_GROUP_ALONE,
    "key_serializer": _IN_PRODUCER,
    "value_deserializer": _IN_GROUP,
    "value_serializer": _IN_PRODUCER,
}
"""What to do in place of an option that the class does not have."""
_SECURITY: Final = "give security=Security(protocol=…, mechanism=…, username=…, ssl_cafile=…)"


def unknown_option(owner: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for an option that `owner` does not have; its text says which one is meant."""
    names = sorted(known)
    plain = name.lower().replace(".", "_").replace("-", "_")
    here = plain if plain in names else _NAMED_HERE.get(plain)
    of_security = plain == "security_protocol" or plain.startswith(("sasl_", "ssl_"))
    if of_security and "mechanism" not in names:
        hint = f"; {_SECURITY}"
    elif here in names:
        hint = f"; {here} is its name here"
    elif (instead := _INSTEAD.get(plain) or _INSTEAD.get(here or "")) is not None:
        hint = f"; {instead}"
    else:
        hint = did_you_mean(name, names)
    return ConfigError(f"{owner} has no option {name}{hint}")


def with_known_names(
    owner: str, options: Mapping[str, Any], known: Collection[str]
) -> dict[str, Any]:
    """The options under their names here.

    Raises ConfigError with a hint for one that is not among `known`, and for one that is given
    under two names.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        own = _ALSO.get(name, name)
        if own not in known:
            raise unknown_option(owner, name, known)
        if own in found:
            both = " and ".join(each for each in options if _ALSO.get(each, each) == own)
            raise ConfigError(f"{owner}: {both} are one option, give one of them")
        found[own] = value
    return found


def _parameters(create: Callable[..., None]) -> frozenset[str]:
    """Names of the keywords that a function takes, those of an `Unpack[TypedDict]` included."""
    found: set[str] = set()
    for name, parameter in inspect.signature(create).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= get_args(parameter.annotation)[0].__annotations__.keys()
        else:
            found.add(name)
    return frozenset(found - {"self", *_ALSO})


def checks_names(cls: C) -> C:
    """Have a class raise ConfigError with a hint for a keyword that its `__init__` does not take.

    Keywords are passed on under their names here. Type checkers see the class as it is.
    """
    create: Callable[..., None] = cls.__init__  # type: ignore[misc]
    known = _parameters(create)

    @functools.wraps(create)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        create(self, *args, **with_known_names(cls.__name__, options, known))

    cls.__init__ = checked  # type: ignore[misc]
    return cls
