"""ACLs, users and quotas on a disk that fails: what was refused did not happen, then all works."""

import os
from pathlib import Path
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.log.local import LocalDirectory
from kohort.protocol.error_codes import errors_in
from server.controller.test_failed_sync import Disk, resumed
from server.handlers import test_acls, test_client_quotas, test_user_scram_credentials
from server.handlers.bench import HandlerBench
from server.handlers.test_acls import ADMIN, STANDARD
from server.identities import peer

Request = tuple[str, int, dict[str, Any]]

ACLS = test_acls.entry("kept"), test_acls.entry("new")
USERS = [test_user_scram_credentials.upsertion(name) for name in ("kept", "new")]
QUOTAS = [
    test_client_quotas.entry([("user", name)], ("producer_byte_rate", 1.0))
    for name in ("kept", "new")
]
CREATE_ACLS, ALTER_USERS, ALTER_QUOTAS = (
    "create_acls",
    "alter_user_scram_credentials",
    "alter_client_quotas",
)
SETUP: tuple[Request, ...] = (
    (CREATE_ACLS, 3, {"creations": ACLS[:1]}),
    (ALTER_USERS, 0, {"upsertions": USERS[:1], "deletions": ()}),
    (ALTER_QUOTAS, 1, {"entries": QUOTAS[:1], "validate_only": False}),
)
CHANGES: dict[str, Request] = {
    "create an ACL": (CREATE_ACLS, 3, {"creations": ACLS[1:]}),
    "delete ACLs": ("delete_acls", 3, {"filters": [test_acls.wanted()]}),
    "add a user": (ALTER_USERS, 0, {"upsertions": USERS[1:], "deletions": ()}),
    "change a password": (
        ALTER_USERS,
        0,
        {
            "upsertions": [test_user_scram_credentials.upsertion("kept", iterations=8192)],
            "deletions": (),
        },
    ),
    "delete a user": (
        ALTER_USERS,
        0,
        {"deletions": [test_user_scram_credentials.deletion("kept")], "upsertions": ()},
    ),
    "set quotas": (ALTER_QUOTAS, 1, {"entries": QUOTAS[1:], "validate_only": False}),
    "remove quotas": (
        ALTER_QUOTAS,
        1,
        {
            "entries": [test_client_quotas.entry([("user", "kept")], ("producer_byte_rate", None))],
            "validate_only": False,
        },
    ),
}


class Stored(HandlerBench):
    """A server on a data directory, asked by its super user."""

    def __init__(self, path: Path) -> None:
        self.logs: LocalDirectory | None = None
        self.path = path
        super().__init__(authorizer_class_name=STANDARD, super_users="User:admin")
        self.peer = peer(ADMIN)

    def restart(self) -> None:
        """Start again on the same files, which were closed."""
        self.end()
        self.directory = self.logs = LocalDirectory(self.path)
        super().restart()

    def end(self) -> None:
        if self.logs is not None:
            self.controller.close()
            self.logs.close()

    async def errors(self, api: str, version: int, fields: dict[str, Any]) -> set[int]:
        return set(errors_in(await self.ask(api, version, **fields)))

    def state(self) -> Any:
        image = self.controller.image
        return (
            set(image.acls.snapshot().values()),
            image.scram_users.snapshot(),
            image.quotas.entities.copy(),
        )


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
async def stored(tmp_path: Path, disk: Disk) -> Any:
    made = Stored(tmp_path / "data")
    for request in SETUP:
        assert await made.errors(*request) <= {0}
    yield made
    disk.error = None
    made.end()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("number", [5, 28])
async def test_a_change_refused_by_the_disk_is_rolled_back_and_works_later(
    stored: Stored, disk: Disk, change: str, number: int
) -> None:
    before = stored.state()
    disk.error = OSError(number, os.strerror(number))
    for _ in range(2):  # the disk fails, and then the log is known to have failed
        assert await stored.errors(*CHANGES[change]) == {ErrorCode.kafka_storage_error}
        assert stored.state() == before
    disk.error = None
    await resumed(stored)
    for request in SETUP:
        assert await stored.errors(*request) <= {0}, "what is there already is no change"
    assert stored.state() == before
    stored.restart()
    assert stored.state() == before
    assert await stored.errors(*CHANGES[change]) <= {0}
    after = stored.state()
    assert after != before
    stored.restart()
    assert stored.state() == after
