"""The listeners that `listeners` and its companions describe, and settings of one of them.

A setting with the prefix `listener.name.NAME.`, in lower case, is for that listener only. Settings
of a SASL mechanism have the mechanism behind the prefix: `listener.name.NAME.scram-sha-256.…`.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kohort.security import SecurityProtocol
from kohort.server.addresses import MAX_PORT, Address, is_loopback, parse_listener
from kohort.server.config.definition import ConfigDef
from kohort.server.config.table import DYNAMIC, RELOADABLE, TABLE

PREFIX: Final = "listener.name."
HTTP: Final = "HTTP"
"""Name by which the HTTP port has settings of its own."""
HOSTNAME: Final = "{hostname}"
"""In `advertised.listeners`: the name of this machine or container."""
DEFAULT_NAME: Final = "PLAINTEXT"
"""Name of a listener that is written without one, as HOST:PORT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """Configuration of one listener."""

    name: str
    """In upper case."""
    security_protocol: SecurityProtocol
    address: Address
    """Port 0: a free one."""
    advertised: Address
    """Port 0: the one that is listened on."""


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a setting, also of one with the prefix of a listener."""
    base = base_name(name)
    if base is None or base == name:
        return TABLE.get(name)
    return replace(TABLE[base], name=name)


def base_name(name: str) -> str | None:
    """The name without the prefix of a listener; None if no setting may have it."""
    if not name.startswith(PREFIX):
        return name
    parts = name.removeprefix(PREFIX).split(".")
    suffixes = (".".join(parts[start:]) for start in (1, 2))
    return next((base for base in suffixes if base in TABLE and TABLE[base].per_listener), None)


def certificates_of(name: str) -> str | None:
    """The listener, in lower case, whose keys or certificates a setting names; None if none."""
    if not name.startswith(PREFIX) or base_name(name) not in RELOADABLE:
        return None
    return name.removeprefix(PREFIX).partition(".")[0]


def is_dynamic(name: str) -> bool:
    """Whether clients can change a setting while the server runs."""
    return certificates_of(name) is not None or base_name(name) in DYNAMIC


def names_for(listener: str, name: str, mechanism: str | None = None) -> Iterator[str]:
    """The names that may set `name` for a listener, the strongest first."""
    prefix = f"{PREFIX}{listener.lower()}."
    if mechanism is not None:
        yield f"{prefix}{mechanism.lower()}.{name}"
    yield f"{prefix}{name}"
    yield name


def read_listeners(value: Callable[[str], Any], problems: list[str]) -> tuple[ListenerConfig, ...]:
    """The listeners of a configuration, in its order; appends errors to `problems`."""
    protocols = _protocols(value("listener.security.protocol.map"), problems)
    listeners = _addresses_by_name(value("listeners"), "listeners", problems)
    if not listeners:
        problems.append("listeners: a listener is needed")
    only = next(iter(listeners)) if len(listeners) == 1 else None
    advertised = _addresses_by_name(
        value("advertised.listeners") or (), "advertised.listeners", problems, only
    )
    problems += [
        f"advertised.listeners: {name} is none of listeners ({', '.join(listeners)})"
        for name in advertised
        if name not in listeners
    ]
    configs = []
    for name, address in listeners.items():
        if name not in protocols:
            problems.append(
                f"listeners: {name} has no security protocol in listener.security.protocol.map"
            )
            continue
        advertised_address = _with_hostname(advertised.get(name, address))
        if advertised_address.is_any:
            problems.append(
                f"advertised.listeners: clients cannot connect to {advertised_address}; name an "
                "address that they can reach, as in --advertise "
                f"{_prefixed(name)}kohort.example:9092"
            )
        configs.append(
            ListenerConfig(
                name=name,
                security_protocol=protocols[name],
                address=address,
                advertised=advertised_address,
            )
        )
    return tuple(configs)


def port_conflicts(
    listeners: Iterable[ListenerConfig], http: Address | None, workers: int
) -> Iterator[str]:
    """One sentence for each port that two listeners or workers would share, or that is too high.

    Each listener takes `workers` ports from its own on. `http` is the address of the HTTP port, if
    there is one.
    """
    listeners = tuple(listeners)
    owners: dict[tuple[str, int], str] = {}
    addresses = ((listener.name, listener.address) for listener in listeners)
    conflicts = [*_port_conflicts("listeners", addresses, workers, owners)]
    if workers > 1 and not conflicts:
        advertised = ((listener.name, listener.advertised) for listener in listeners)
        conflicts += _port_conflicts("advertised.listeners", advertised, workers, {})
    yield from conflicts
    if http in owners:
        yield (
            f"http.listen: {http} is a port of {owners[http]}, which takes as many ports from its "
            "own on as there are workers"
        )


def _port_conflicts(
    setting: str,
    addresses: Iterable[tuple[str, Address]],
    workers: int,
    owners_by_port: dict[tuple[str, int], str],
) -> Iterator[str]:
    """Errors of the ports from these addresses on; adds the ports to `owners_by_port`."""
    for name, address in addresses:
        host, port = address
        if port + workers - 1 > MAX_PORT:
            yield f"{setting}: there are no {workers} ports from {address} on"
        ports = range(port, port + workers) if port else ()
        owners = {owners_by_port.setdefault((host, number), name) for number in ports}
        for owner in owners - {name}:
            yield (
                f"{setting}: {owner} and {name} are too close to each other; each takes {workers} "
                "ports from its own on, one for each worker"
            )


def _addresses_by_name(
    texts: Iterable[str], setting: str, problems: list[str], default: str | None = None
) -> dict[str, Address]:
    addresses: dict[str, Address] = {}
    for text in texts:
        name, address = parse_listener(text)
        name = name or default or DEFAULT_NAME
        if name in addresses:
            problems.append(f"{setting}: {name} is there twice; each listener has its own name")
        addresses[name] = address
    return addresses


def _with_hostname(address: Address) -> Address:
    if HOSTNAME not in address.host:
        return address
    return address._replace(host=address.host.replace(HOSTNAME, socket.gethostname()))


def _protocols(entries: Iterable[str], problems: list[str]) -> Mapping[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, _, protocol = entry.upper().partition(":")
        if not name or protocol not in SecurityProtocol.__members__:
            problems.append(
                f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL, with one of "
                f"{', '.join(SecurityProtocol)}"
            )
        elif protocols.setdefault(name, SecurityProtocol[protocol]) != protocol:
            problems.append(f"listener.security.protocol.map: {name} is there twice")
    return protocols


def exposure_problem(listener: ListenerConfig, client_auth: str) -> str | None:
    """Why other machines should not reach a listener, None if they may."""
    protocol, address = listener.security_protocol, listener.address
    if protocol.has_tls and (protocol.has_sasl or client_auth == "required"):
        return None
    if is_loopback(address.host):
        return None
    if not protocol.has_tls:
        missing = "nothing is encrypted" if protocol.has_sasl else "nobody is authenticated"
        remedy = f"give {listener.name} the protocol SASL_SSL or SSL"
    else:
        missing = "clients need no certificate"
        remedy = "set ssl.client.auth=required"
    return (
        f"listeners: {_prefixed(listener.name)}{address} can be reached by other machines, and "
        f"{missing}; listen on 127.0.0.1, or {remedy}, or say --insecure if the network is trusted"
    )


def _prefixed(name: str) -> str:
    return "" if name == DEFAULT_NAME else f"{name}://"
