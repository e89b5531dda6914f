"""Clients: members of the log that are one process after the other.

A process that restarts, or joins again after its session, has a new member id. So the members with
one instance id, or with one client id and host, are taken for one client after the other. Several
such members may be there at once, as threads of one process are: each joins the client whose last
member departed last. So a client that comes back again and again is told from ten that do so once.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of `members`."""


@dataclass(slots=True)
class Client:
    """Members that follow each other."""

    label: str
    members: list[Row] = field(default_factory=list)
    """In order. Their times do not overlap."""

    @property
    def instance_id(self) -> str | None:
        value: str | None = self.members[0]["instance_id"]
        return value

    @property
    def origins(self) -> set[tuple[str, str]]:
        """Client ids and hosts: several ones of an instance are several processes."""
        return {(row["client_id"], row["client_host"]) for row in self.members}


def clients_of(members: Iterable[Row]) -> list[Client]:
    """The clients of a group."""
    found: dict[tuple[Any, ...], list[Client]] = defaultdict(list)
    for row in sorted(members, key=lambda row: (row["log_partition"], row["from_offset"])):
        of_identity = found[_identity(row)]
        free = [client for client in of_identity if _has_departed(client.members[-1], row)]
        if free:
            client = max(free, key=lambda client: int(client.members[-1]["to_offset"]))
        else:
            client = Client(label(row))
            of_identity.append(client)
        client.members.append(row)
    return [client for of_identity in found.values() for client in of_identity]


def _identity(row: Row) -> tuple[Any, ...]:
    if row["instance_id"] is not None:
        return row["log_partition"], row["instance_id"]
    return row["log_partition"], None, row["client_id"], row["client_host"]


def _has_departed(row: Row, joining: Row) -> bool:
    return row["to_offset"] is not None and row["to_offset"] <= joining["from_offset"]


def label(row: Row) -> str:
    """Name of the member in texts: its instance id, or client id and host."""
    if row["instance_id"] is not None:
        return str(row["instance_id"])
    host = str(row["client_host"] or "").lstrip("/")
    return f"{row['client_id'] or '(no client id)'} at {host or 'an unknown host'}"
