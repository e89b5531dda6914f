"""Settings of a server with which its responses differ from the recorded ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kohort_conformance.entities import UndecodableResponseError
from kohort_conformance.scenario import AT_ONCE
from kohort_conformance.wire import HungUpError, RawConnection, SilentError

RECORDED_WITH: Final[Mapping[str, str]] = {**AT_ONCE, "memory.restart.visible": "false"}
"""Settings without which responses differ; others have the defaults, or those of the profile."""
SETTINGS_S: Final = 10.0
"""How long the server may take to tell its settings."""
BROKER: Final = 4
"""The type of a broker among resources with configs."""


async def differing_settings(host: str, port: int) -> dict[str, str | None]:
    """Those of `RECORDED_WITH` that the server has otherwise; none if it does not tell."""
    failures = (HungUpError, SilentError, UndecodableResponseError, OSError)
    with suppress(*failures):
        async with asyncio.timeout(SETTINGS_S):
            found = await _settings(host, port)
        return {
            name: found[name]
            for name, value in RECORDED_WITH.items()
            if name in found and found[name] != value
        }
    return {}


async def _settings(host: str, port: int) -> dict[str, str | None]:
    """Of the first broker; none if it has no such API, or nobody may ask for them."""
    connection = await RawConnection.open(host, port)
    try:
        brokers = (await _ask(connection, "Metadata", topics=[]))["brokers"]
        node = min((one["node_id"] for one in brokers), default=0)
        resource = {"resource_type": BROKER, "resource_name": str(node), "configuration_keys": None}
        results = (await _ask(connection, "DescribeConfigs", resources=[resource]))["results"]
        return {one["name"]: one["value"] for result in results for one in result["configs"]}
    finally:
        await connection.close()


async def _ask(connection: RawConnection, api: str, **values: Any) -> dict[str, Any]:
    """By version 1, which every server has that has the API."""
    return await connection.send(api, 1, values, "kohort-conformance").response(SETTINGS_S)
