"""Users with SCRAM credentials (KIP-554)."""

import asyncio
import secrets
from collections.abc import Collection, Mapping

from kohort.client.admin.changes import changing
from kohort.client.admin.coordinator_requests import broker_connection, refusal
from kohort.client.cluster import Cluster
from kohort.errors import ConfigError, KohortError, fresh
from kohort.security.scram import (
    BY_MECHANISM,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    salted_password,
)


async def describe_scram_users(
    cluster: Cluster, users: Collection[str]
) -> dict[str, Mapping[str, int] | KohortError]:
    """Iterations by mechanism of each of these users, or of all users.

    Raises KohortError.
    """
    response = await (await broker_connection(cluster)).send(
        "describe_user_scram_credentials",
        users=[{"name": name} for name in dict.fromkeys(users)] or None,
    )
    if (error := refusal(response.error_code, response.error_message)) is not None:
        raise fresh(error)
    return {
        result.user: refusal(result.error_code, result.error_message)
        or {
            ScramMechanism(info.mechanism).mechanism: info.iterations
            for info in result.credential_infos
        }
        for result in response.results
    }


async def set_scram_password(
    cluster: Cluster, user: str, password: str, mechanism: str, iterations: int
) -> None:
    """Set the password of a user, and create the user if it is new. Raises KohortError."""
    kind = _kind(mechanism)
    if not password:
        raise ConfigError(f"the password of {user} is empty")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ConfigError(
            f"{iterations} iterations: brokers accept {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    salt = secrets.token_bytes(SALT_BYTES)
    # Takes some milliseconds: too long for the event loop that heartbeats use.
    salted = await asyncio.to_thread(salted_password, kind, password, salt, iterations)
    upsertion = {
        "name": user,
        "mechanism": kind.value,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted,
    }
    await _alter(cluster, upsertions=[upsertion])


async def delete_scram_credential(cluster: Cluster, user: str, mechanism: str) -> None:
    """Delete a user's credential of a mechanism. Raises KohortError: RESOURCE_NOT_FOUND."""
    deletion = {"name": user, "mechanism": _kind(mechanism).value}
    await _alter(cluster, deletions=[deletion])


async def _alter(
    cluster: Cluster,
    *,
    deletions: Collection[Mapping[str, object]] = (),
    upsertions: Collection[Mapping[str, object]] = (),
) -> None:
    connection = await broker_connection(cluster)
    with changing("describe the users"):
        response = await connection.send(
            "alter_user_scram_credentials", deletions=deletions, upsertions=upsertions
        )
    for result in response.results:
        if (error := refusal(result.error_code, result.error_message)) is not None:
            raise fresh(error)


def _kind(mechanism: str) -> ScramMechanism:
    kind = BY_MECHANISM.get(mechanism)
    if kind is None:
        raise ConfigError(f"mechanism {mechanism!r}: it is one of {', '.join(BY_MECHANISM)}")
    return kind
