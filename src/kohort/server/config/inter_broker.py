"""Connections between the nodes of a cluster: their listener, and their user.

The rules are those of Kafka's KafkaConfig. Functions raise ValueError with the whole problem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kohort.security.jaas import LOGIN_MODULES, own_login
from kohort.server.config.listeners import PREFIX, ListenerConfig

LISTENER: Final = "inter.broker.listener.name"
PROTOCOL: Final = "security.inter.broker.protocol"
MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLogin:
    """Credentials of a node at other nodes."""

    mechanism: str
    username: str
    password: str = field(repr=False)


class InterBroker(NamedTuple):
    """Connection of this node to others."""

    listener: ListenerConfig
    """Its own; others have one of the same name."""
    login: NodeLogin | None
    """None: the listener has no SASL."""
    checks_names: bool
    """Whether a certificate has to name the host that is connected to."""


def inter_broker_listener(
    value: Callable[[str], Any], listeners: Sequence[ListenerConfig], *, protocol_is_set: bool
) -> ListenerConfig:
    """The listener by which nodes connect; `protocol_is_set`: whether a source has `PROTOCOL`."""
    name, names = value(LISTENER), ", ".join(listener.name for listener in listeners)
    if name is not None and protocol_is_set:
        raise ValueError(f"{LISTENER}: only it or {PROTOCOL} can be set; leave out {PROTOCOL}")
    listener_name = value(PROTOCOL) if name is None else name.upper()
    inter_broker = next(
        (listener for listener in listeners if listener.name == listener_name), None
    )
    if inter_broker is not None:
        return inter_broker
    if name is not None:
        raise ValueError(f"{LISTENER}: {listener_name} is none of listeners ({names})")
    raise ValueError(
        f"{PROTOCOL}: nodes connect to each other by the listener named {listener_name}, and there "
        f"is none; name one of listeners ({names}) by {LISTENER}"
    )


def node_login(value_of: Callable[..., Any], listener: ListenerConfig) -> NodeLogin | None:
    """Credentials of a node; None without SASL. `value_of`: `Config.of_listener` of it."""
    if not listener.security_protocol.has_sasl:
        return None
    mechanism, enabled = value_of(MECHANISM), value_of("sasl.enabled.mechanisms")
    if mechanism not in enabled:
        problem = "is needed" if mechanism is None else f"{mechanism} is not enabled"
        raise ValueError(
            f"{MECHANISM}: {problem}, as {listener.name}, by which nodes connect to each other, "
            f"has SASL; name one of its sasl.enabled.mechanisms ({', '.join(enabled)})"
        )
    setting = f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = value_of("sasl.jaas.config", mechanism)
    if text is None:
        raise ValueError(
            f"{setting}: nodes need it, to authenticate with each other: "
            f'{LOGIN_MODULES[mechanism]} required username="…" password="…";'
        )
    try:
        username, password = own_login(text, mechanism)
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None
    return NodeLogin(mechanism=mechanism, username=username, password=password)
