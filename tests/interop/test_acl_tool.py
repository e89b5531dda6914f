"""Apache Kafka's `kafka-acls`, unchanged, against a server with an authorizer."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.tools import Tool, Tools
from kohort.testing.server_process import ServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.clients]
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def acls(tools: Tools, tmp_path: Path) -> Iterator[Tool]:
    server = ServerProcess("--memory", log=tmp_path / "log", settings=SETTINGS)
    yield Tool(tools, "org.apache.kafka.tools.AclCommand", server.address)
    server.kill()


def entries(printed: str) -> set[tuple[str, ...]]:
    """(principal, host, operation, permission) of each entry that was printed."""
    form = r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)"
    return set(re.findall(form, printed))


def test_entries_of_producers_and_consumers(acls: Tool) -> None:
    acls("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    acls("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders",
         "--group", "billing")  # fmt: skip
    assert entries(acls("--list", "--topic", "orders")) == {
        ("User:alice", "*", "WRITE", "ALLOW"),
        ("User:alice", "*", "DESCRIBE", "ALLOW"),
        ("User:alice", "*", "CREATE", "ALLOW"),
        ("User:bob", "*", "READ", "ALLOW"),
        ("User:bob", "*", "DESCRIBE", "ALLOW"),
    }
    assert entries(acls("--list", "--group", "billing")) == {("User:bob", "*", "READ", "ALLOW")}
    acls("--remove", "--force", "--allow-principal", "User:alice", "--producer",
         "--topic", "orders")  # fmt: skip
    assert {principal for principal, *_ in entries(acls("--list"))} == {"User:bob"}


def test_denials_and_prefixes(acls: Tool) -> None:
    acls("--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "All",
         "--topic", "ord", "--resource-pattern-type", "prefixed")  # fmt: skip
    denial = {("User:*", "10.0.0.1", "ALL", "DENY")}
    assert entries(acls("--list", "--topic", "orders")) == set()
    matching = ("--topic", "orders", "--resource-pattern-type", "match")
    assert entries(acls("--list", *matching)) == denial
    acls("--remove", "--force", *matching)
    assert entries(acls("--list")) == set()
