"""Chooses the group protocol of a member that leaves it to the brokers (`protocol="auto"`)."""

from dataclasses import replace
from typing import Final

from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster
from kohort.client.config import GroupConfig
from kohort.client.group.requests import PATTERNS_SINCE

FEATURE: Final = "group.version"
"""Feature of a cluster whose level 1 has the consumer protocol."""


async def negotiated(cluster: Cluster, config: GroupConfig) -> GroupConfig:
    """The configuration with the protocol to join with; asks a broker only for `auto`.

    Raises GaveUpError when none is reached within `retry_timeout_ms`, AuthenticationError.
    """
    if config.protocol != "auto":
        return config
    connection = await retrying(
        cluster.any_connection,
        operation=f"the protocol of group {config.group_id}",
        timeout_ms=config.retry_timeout_ms,
        backoff=cluster.backoff(),
        advice="check that the brokers run and can be reached from here",
    )
    version = connection.version("consumer_group_heartbeat")
    least = 0 if config.pattern is None else PATTERNS_SINCE
    if version is not None and version >= least and connection.feature(FEATURE) >= 1:
        return replace(config, protocol="consumer")
    return replace(config, protocol="classic", remote_assignor=None)
