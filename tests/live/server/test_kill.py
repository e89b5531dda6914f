"""A kill amid changes of ACLs, users and quotas: what was acknowledged is there again."""

import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from kio.serial import entity_reader

from kohort.protocol.apis import BY_NAME
from kohort.protocol.error_codes import errors_in
from kohort.protocol.message_classes import load_response_schema
from live.server.server import Server, frame, serving
from live.server.test_memory import Client
from server.handlers import test_acls, test_client_quotas, test_user_scram_credentials
from waiting import wait_until

SETTINGS = {
    "storage": "local",
    "authorizer.class.name": test_acls.STANDARD,
    "super.users": "User:ANONYMOUS",
}
KINDS = ("acl", "user", "quota")
ANSWERS = 60
"""Changes that are acknowledged before the kill, of all kinds together."""

Asked = tuple[str, int, dict[str, Any]]


def ask(client: Client, api: str, version: int, fields: dict[str, Any]) -> Any:
    api_key = BY_NAME[api].key
    at = 5 if BY_NAME[api].flexible(version) else 4  # behind the correlation id, and no tags
    told = client.ask(frame(api, version, **fields))
    return entity_reader(load_response_schema(api_key, version))(told, at)[0]


def setting(kind: str, name: str) -> Asked:
    if kind == "acl":
        return "create_acls", 3, {"creations": [test_acls.entry(name)]}
    if kind == "user":
        upsertions = [test_user_scram_credentials.upsertion(name)]
        return "alter_user_scram_credentials", 0, {"upsertions": upsertions, "deletions": ()}
    return altering(name, 1.0)


def removing(kind: str, name: str) -> Asked:
    if kind == "acl":
        return "delete_acls", 3, {"filters": [test_acls.wanted(resource_name_filter=name)]}
    if kind == "user":
        deletions = [test_user_scram_credentials.deletion(name)]
        return "alter_user_scram_credentials", 0, {"upsertions": (), "deletions": deletions}
    return altering(name, None)


def altering(name: str, rate: float | None) -> Asked:
    entry = test_client_quotas.entry([("user", name)], ("producer_byte_rate", rate))
    return "alter_client_quotas", 1, {"entries": [entry], "validate_only": False}


class Changes:
    """A client that sets and removes, and what it was told."""

    def __init__(self, server: Server, kind: str) -> None:
        self.known: set[str] = set()
        """The names that are set."""
        self.in_doubt = ""
        """The name of the change that has no answer."""
        self.errors: set[int] = set()
        self.count = 0
        self._kind = kind
        self._random = random.Random(kind)
        self._client = Client(server)

    def run(self) -> None:
        """Change names until the server is gone."""
        with suppress(OSError, AssertionError):  # the connection has ended
            while True:
                self.change(f"n{self._random.randrange(8)}")

    def change(self, name: str) -> None:
        self.in_doubt = name
        request = removing if name in self.known else setting
        told = ask(self._client, *request(self._kind, name))
        self.errors |= errors_in(told) - {0}
        self.known ^= {name}
        self.in_doubt = ""
        self.count += 1


def there(server: Server) -> dict[str, set[str]]:
    client = Client(server)
    acls = ask(client, "describe_acls", 3, test_acls.wanted())
    users = ask(client, "describe_user_scram_credentials", 0, {"users": None})
    quotas = ask(client, "describe_client_quotas", 1, {"components": (), "strict": False})
    return {
        "acl": {each.resource_name for each in acls.resources},
        "user": {each.user for each in users.results},
        "quota": {each.entity[0].entity_name for each in quotas.entries},
    }


def test_acknowledged_records_survive_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path, SETTINGS) as server:
        clients = {kind: Changes(server, kind) for kind in KINDS}
        threads = [threading.Thread(target=each.run) for each in clients.values()]
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(each.count for each in clients.values()) >= ANSWERS)
        server.process.kill()
        for thread in threads:
            thread.join()
    with serving(tmp_path, SETTINGS) as server:
        found = there(server)
    for kind, client in clients.items():
        assert not client.errors
        assert found[kind] ^ client.known <= {client.in_doubt}
