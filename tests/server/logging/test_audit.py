"""The audit log: who was denied what, a bounded number of lines, and a file that is rotated."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from docs.blocks import run_by
from kohort.security import KafkaPrincipal
from kohort.security.acls import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    Acls,
    PatternType,
    ResourceType,
)
from kohort.security.authorizer import Authorizer
from kohort.server.authorization import Access, Authorization
from kohort.server.logging import AuditLog
from kohort.server.logging.audit import MAX_NAME_LENGTH, PER_SECOND
from server.identities import peer
from server.logging.test_log_lines import Disk
from server.test_authorization import question

ALICE = peer(KafkaPrincipal("User", "alice"))


class Clock:
    now = 1_700_000_000.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Iterator[AuditLog]:
    made = AuditLog(str(tmp_path / "audit"), now=clock)
    yield made
    made.close()


def lines(log: AuditLog, path: Path) -> list[dict[str, Any]]:
    log.flush()
    return [json.loads(line) for line in path.read_text().splitlines()]


def denied(log: AuditLog, name: str = "orders") -> None:
    log.record(ALICE, "produce", AclOperation.WRITE, ResourceType.TOPIC, name, False)


def test_a_line_says_who_from_where_by_what_and_what_of(log: AuditLog, tmp_path: Path) -> None:
    denied(log, "a\n" + "x" * 2 * MAX_NAME_LENGTH)
    (line,) = lines(log, tmp_path / "audit")
    assert line == {
        "time": "2023-11-14T22:13:20.500Z",
        "principal": "User:alice",
        "host": "127.0.0.1",
        "listener": "PLAINTEXT",
        "api": "produce",
        "operation": "write",
        "resource": "topic",
        "name": ("a\n" + "x" * MAX_NAME_LENGTH)[:MAX_NAME_LENGTH],
        "allowed": False,
    }


def test_the_line_of_the_documentation(log: AuditLog, tmp_path: Path) -> None:
    denied(log)
    (line,) = lines(log, tmp_path / "audit")
    (block,) = run_by(__file__)
    told = json.loads(block.code)
    differ = ("time", "host", "listener")
    assert list(told) == list(line)
    assert told | {name: line[name] for name in differ} == line


def test_lines_beyond_those_of_a_second_are_counted(
    log: AuditLog, clock: Clock, tmp_path: Path
) -> None:
    for _ in range(PER_SECOND + 7):
        denied(log)
    clock.now += 1
    denied(log)
    told = lines(log, tmp_path / "audit")
    assert len(told) == PER_SECOND + 2
    assert told[-2]["left_out"] == 7


def test_the_audit_log_continues_in_a_new_file_after_a_rotation(
    log: AuditLog, tmp_path: Path
) -> None:
    denied(log, "first")
    log.flush()
    (tmp_path / "audit").rename(tmp_path / "audit.1")
    denied(log, "second")
    log.flush()
    log.reopen()
    denied(log, "third")
    assert [each["name"] for each in lines(log, tmp_path / "audit.1")] == ["first", "second"]
    assert [each["name"] for each in lines(log, tmp_path / "audit")] == ["third"]


def test_lines_that_a_full_disk_refuses_are_counted_and_told(
    log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(monkeypatch, 10)
    for _ in range(3):
        denied(log)
    log.flush()
    disk.room = 1 << 20
    denied(log, "after")
    log.flush()
    torn, *told = (tmp_path / "audit").read_text().splitlines()
    assert len(torn) == 10
    assert [json.loads(line).get("name") for line in told] == ["after", None]
    assert json.loads(told[1])["left_out"] == 3
    (logged,) = caplog.records
    assert "lost" in logged.message


def test_a_new_file_begins_with_a_whole_line_after_a_full_disk(
    log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 10)
    denied(log, "torn")
    log.flush()
    (tmp_path / "audit").rename(tmp_path / "audit.1")
    log.reopen()
    disk.room = 1 << 20
    denied(log, "whole")
    assert [each.get("name") for each in lines(log, tmp_path / "audit")] == ["whole", None]


def access(log: AuditLog) -> Access:
    acls = Acls()
    allow = AclPermissionType.ALLOW
    mine = AclBinding(
        ResourceType.GROUP, "mine", PatternType.LITERAL, "User:*", "*", AclOperation.READ, allow
    )
    acls.add(UUID(int=1), mine)
    return Authorization(Authorizer(acls), log).access(question())


@pytest.mark.parametrize(
    ("allowed_too", "told"), [(False, ["other"] * 2), (True, ["mine", "other"] * 2)]
)
def test_decisions_are_told_again_each_time(
    tmp_path: Path, clock: Clock, allowed_too: bool, told: list[str]
) -> None:
    log = AuditLog(str(tmp_path / "audit"), allowed_too=allowed_too, now=clock)
    asked = access(log)
    for _ in range(2):
        assert asked.group("mine")
        assert not asked.group("other")
    assert [each["name"] for each in lines(log, tmp_path / "audit")] == told
    log.close()


def test_entries_left_out_of_a_list_are_not_audited(log: AuditLog, tmp_path: Path) -> None:
    assert not access(log).quietly().group("other")
    assert lines(log, tmp_path / "audit") == []


def test_the_descriptor_is_not_reused_while_a_line_is_being_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kohort.server.logging.log_lines.FLUSH_S", 0.05)
    path = tmp_path / "audit"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = AuditLog(str(path))
    for _ in range(PER_SECOND):  # more than a pipe takes
        denied(log)
    used = log._descriptor
    log.close()
    assert os.fstat(used)
    while not log._lines.is_written:
        with suppress(BlockingIOError):
            os.read(reader, 1 << 16)
    os.close(used)
    os.close(reader)
