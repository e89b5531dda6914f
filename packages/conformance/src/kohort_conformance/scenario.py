"""The registry of scenarios: coroutine functions of a stage, grouped by subject.

A subject is a module of `scenarios`, or a package of several.

    @scenario
    async def heartbeat_of_a_stranger(stage: Stage) -> None:
        \"""A heartbeat to a group that does not exist gets 25.\"""

The name of a scenario is its subject's and its own ("heartbeats.of_a_stranger"), its title the
first line of its docstring. `@scenario(waits=7)` says how many seconds one spends waiting for
timers, so that those start first. `@scenario(profile="small")` is one that needs a server with the
settings of that profile, and is played only there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, overload

from kohort_conformance.stage import Stage
from kohort_conformance.wire import password

DEFAULT: Final = "default"
AT_ONCE: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
"""Without the delays by which Kafka waits for more members."""
SECURED: Final = "secured"
"""The profile with ACLs, to which clients log in by SASL: PLAIN, unless a scenario is about others.
"""
ADMIN: Final = "admin"
"""The super user."""
USERS: Final = (ADMIN, *(f"user{number}" for number in range(60)))
_LOGINS: Final = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
_LISTENER: Final = "listener.name.plaintext"
_SECURITY: Final = "org.apache.kafka.common.security"
_SCRAM: Final = f"{_SECURITY}.scram.ScramLoginModule required;"
PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    DEFAULT: AT_ONCE,
    "small": {
        **AT_ONCE,
        "group.max.size": "2",
        "group.initial.rebalance.delay.ms": "1500",
        "group.min.session.timeout.ms": "1000",
        "group.max.session.timeout.ms": "60000",
        "offset.metadata.max.bytes": "10",
        "group.consumer.max.size": "2",
        "group.consumer.session.timeout.ms": "3000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "500",
    },
    "expiring": {**AT_ONCE, "offsets.retention.check.interval.ms": "1000"},
    "retention": {
        **AT_ONCE,
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "1000",
    },
    "rack": {**AT_ONCE, "broker.rack": "r1"},
    "upgrade": {**AT_ONCE, "group.consumer.migration.policy": "upgrade"},
    "downgrade": {**AT_ONCE, "group.consumer.migration.policy": "downgrade"},
    "disabled": {**AT_ONCE, "group.consumer.migration.policy": "disabled"},
    SECURED: {
        **AT_ONCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Kafka's own controller connects without a name.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{_LISTENER}.plain.sasl.jaas.config": (
            f"{_SECURITY}.plain.PlainLoginModule required "
            f'username="{ADMIN}" password="{password(ADMIN)}" {_LOGINS};'
        ),
        f"{_LISTENER}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{_LISTENER}.scram-sha-512.sasl.jaas.config": _SCRAM,
        f"{_LISTENER}.oauthbearer.sasl.jaas.config": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="{ADMIN}";'
        ),
        # SCRAM-SHA-256 has none: its sessions do not end.
        f"{_LISTENER}.plain.connections.max.reauth.ms": "3600000",
        f"{_LISTENER}.scram-sha-512.connections.max.reauth.ms": "1800000",
        f"{_LISTENER}.oauthbearer.connections.max.reauth.ms": "600000",
        # Kohort's; Kafka takes unsigned tokens unless it is told otherwise, and has no such limit.
        "sasl.oauthbearer.unsecured": "true",
        "max.failed.authentications.per.ip": "1000000",
    },
    "classic": {**AT_ONCE, "group.coordinator.rebalance.protocols": "classic"},
}
"""Settings, by Kafka's names, of the servers that scenarios are played on.

All else is Kafka's default.
"""

Play: TypeAlias = Callable[[Stage], Awaitable[None]]

registered: dict[str, Scenario] = {}
"""Scenarios by name, of the modules that were imported."""


@dataclass(frozen=True)
class Scenario:
    """One conversation with a server."""

    name: str
    subject: str
    title: str
    play: Play
    waits: float = 0.0
    profile: str = DEFAULT


@overload
def scenario(play: Play, /) -> Play: ...
@overload
def scenario(*, waits: float = 0.0, profile: str = DEFAULT) -> Callable[[Play], Play]: ...
def scenario(
    play: Play | None = None, /, *, waits: float = 0.0, profile: str = DEFAULT
) -> Play | Callable[[Play], Play]:
    """Register a scenario; gives the function back as it is."""

    def register(play: Play) -> Play:
        subject = play.__module__.rpartition("scenarios.")[2].partition(".")[0]
        name = f"{subject}.{play.__name__}"
        if name in registered:
            raise ValueError(f"two scenarios named {name}")
        title = " ".join((play.__doc__ or "").partition("\n\n")[0].split())
        registered[name] = Scenario(name, subject, title, play, waits, profile)
        return play

    return register if play is None else register(play)
