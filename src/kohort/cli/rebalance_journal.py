"""Groups on the HTTP port of a Kohort server: the journal of rebalances, and the explanation."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from kohort.cli.opened_cluster import is_local
from kohort.cli.options import RefusedError
from kohort.cli.rebalance_causes import describe_causes
from kohort.client.admin import Admin, ConfigResource, GroupDescription
from kohort.client.resets import iso
from kohort.coordinator.journal import Cause
from kohort.errors import KohortError

TIMEOUT_S: Final = 30.0
CONFIGURED_PORT_TIMEOUT_S: Final = 3.0
"""Timeout of a port from the server's configuration, which may be unreachable from here."""
SETTING: Final = "http.listen"
_ANY: Final = ("", "0.0.0.0", "::", "*")  # nosec B104


def read_journal(url: str, group: str, timeout_s: float) -> list[dict[str, Any]]:
    """The group's journal from the HTTP port at `url`, oldest entry first. Raises KohortError."""
    journal: list[dict[str, Any]] = _read(_group_url(url, group), timeout_s, "journal")
    return journal


def read_explanation(url: str, group: str, timeout_s: float) -> dict[str, Any]:
    """Why the group is not stable, from the HTTP port at `url`. Raises KohortError."""
    explanation: dict[str, Any] = _read(f"{_group_url(url, group)}/explain", timeout_s, None)
    return explanation


def _group_url(url: str, group: str) -> str:
    return f"{url.rstrip('/')}/groups/{quote(group, safe='')}"


def _read(url: str, timeout_s: float, field: str | None) -> Any:
    """The document at `url`, or a field of it."""
    try:
        # The scheme was checked.
        with urllib.request.urlopen(url, timeout=timeout_s) as response:  # nosec B310
            document = json.load(response)
            return document if field is None else document[field]
    except urllib.error.HTTPError as error:
        raise KohortError(_reason(error)) from error
    except OSError as error:
        why_not = getattr(error, "reason", error)
        raise KohortError(
            f"{url} does not respond ({why_not}): start the server with --http, or name its port "
            "by --http"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise KohortError(f"{url} is not an HTTP port of Kohort: {error}") from error


def checked_url(http: str) -> str:
    """URL of the value of --http. Raises RefusedError."""
    url = http if "://" in http else f"http://{http}"
    if not url.startswith(("http://", "https://")):
        raise RefusedError(f"--http {http}: is not HOST:PORT, http:// or https://")
    return url


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url}: {error}"


async def journal_url(admin: Admin, about: GroupDescription) -> str | None:
    """URL of the HTTP port of the group's coordinator; None if it cannot be reached from here.

    A Kohort server has the port among its configs; other brokers have no such config.
    """
    resource = ConfigResource("broker", str(about.coordinator))
    configs = (await admin.describe_configs([resource]))[resource]
    if isinstance(configs, KohortError) or (entry := configs.get(SETTING)) is None:
        return None
    scheme, _, address = (entry.value or "").rpartition("://")
    host, _, port = address.rpartition(":")
    broker = about.coordinator_address.rpartition(":")[0]
    if port in ("", "0"):
        return None
    if host.strip("[]") in _ANY:
        host = broker
    elif is_local(host.strip("[]")) and not is_local(broker.strip("[]")):
        return None
    return f"{scheme or 'http'}://{host}:{port}"


def row(rebalance: Mapping[str, Any]) -> tuple[object, ...]:
    """ended, outcome, generation, join and sync phase in ms, number of members, causes."""
    started, joined, ended = rebalance["started"], rebalance["joined"], rebalance["ended"]
    causes = tuple(
        Cause(cause["what"], cause["member_id"], cause["client_id"], cause["reason"])
        for cause in rebalance["causes"]
    )
    missing = f"; without {', '.join(rebalance['awaited'])}" if rebalance["awaited"] else ""
    return (
        iso(ended),
        rebalance["outcome"],
        rebalance["generation"],
        (ended if joined is None else joined) - started,
        0 if joined is None else ended - joined,
        len(rebalance["members"]),
        f"{describe_causes(causes)}{missing}",
    )
