"""Few file descriptors: those of segments leave enough for connections."""

import logging
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.errors import KohortError
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.stores import max_open_files
from kohort.protocol.batches import Record, build
from kohort.server.net.file_descriptors import first_reserved, raise_limit, warn_of_low_limit
from kohort.types import Timestamp, TopicPartition


@pytest.fixture
def soft_limit() -> Iterator[None]:
    """A soft limit of 512, which many containers have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("soft_limit")
def test_many_partitions_leave_descriptors_for_connections(tmp_path: Path) -> None:
    others = len(os.listdir("/dev/fd"))
    directory = LocalDirectory(tmp_path)
    names = [TopicPartition("orders", number) for number in range(200)]
    for name in names:
        log = directory.open(name, LogConfig())
        log.append(build([Record(None, b"v")]), Timestamp(1))
    descriptors = [os.dup(0) for _ in range(200 - others)]
    assert descriptors[-1] < first_reserved()
    for each in descriptors:
        os.close(each)
    directory.close()


@pytest.mark.parametrize("limit", [128, 256, 512, 1_024, 4_096, 1 << 20, resource.RLIM_INFINITY])
def test_each_limit_has_room_for_both(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    raise_limit()
    connections = first_reserved() - max_open_files()
    assert connections >= 64
    assert max_open_files() >= 16


def test_too_few_are_refused_and_few_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (127, 127))
    with pytest.raises(KohortError, match=r"127 open files, and a server needs 128.*ulimit -n"):
        raise_limit()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 512))
    raise_limit()
    warn_of_low_limit()
    assert "512 open files allows about 256 connections" in caplog.text
    caplog.clear()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2_048, 2_048))
    warn_of_low_limit()
    assert not caplog.text
