"""Storage faults as clients see them, over the wire."""

import asyncio
import contextlib
import errno
import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator_common import partition_for
from kohort.errors import ErrorCode
from kohort.log import durability, recovery
from kohort.protocol.batches import decode_records
from kohort.server.addresses import Address
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.testing.server_process import ServerProcess
from server.handlers.bench import batch_of
from server.net.bench import Peer
from waiting import until

SHARDS = 4
FAILED = ErrorCode.kafka_storage_error
NOBODY = 65534


@contextlib.asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncIterator[Peer]:
    """A client."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


def settings(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "listeners": "127.0.0.1:0",
        "log.dir": str(path),
        "offsets.topic.num.partitions": SHARDS,
        "group.initial.rebalance.delay.ms": 0,
    } | more


def produced(value: bytes, topic: str = "orders") -> dict[str, Any]:
    data = {"index": 0, "records": batch_of(value)}
    return {
        "acks": -1,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }


async def produce(peer: Peer, value: bytes, topic: str = "orders") -> ErrorCode:
    answer = await peer.ask("produce", 8, **produced(value, topic))
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


async def fetch(peer: Peer, offset: int = 0, topic: str = "orders") -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 24}
    answer = await peer.ask(
        "fetch",
        11,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )
    return answer.responses[0].partitions[0]


async def values(peer: Peer, topic: str = "orders") -> list[bytes]:
    """Every record's value."""
    found: list[bytes] = []
    while records := (await fetch(peer, len(found), topic)).records:
        for at in _batches(bytes(records)):
            found += [each.value or b"" for each in decode_records(at)]
    return found


def _batches(data: bytes) -> Iterator[bytes]:
    while len(data) > 12:
        size = struct.unpack_from(">i", data, 8)[0] + 12
        if size > len(data):
            return
        yield data[:size]
        data = data[size:]


async def latest(peer: Peer, timestamp: int = -1) -> Any:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    answer = await peer.ask(
        "list_offsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    return answer.topics[0].partitions[0]


def commit(group: str, offset: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }


async def committed(peer: Peer, group: str, offset: int) -> ErrorCode:
    answer = await peer.ask("offset_commit", 7, **commit(group, offset))
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


async def offset_of(peer: Peer, group: str) -> tuple[ErrorCode, int]:
    wanted = [{"name": "orders", "partition_indexes": [0]}]
    answer = await peer.ask("offset_fetch", 5, group_id=group, topics=wanted)
    if answer.error_code:
        return answer.error_code, -1
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.committed_offset


async def created(peer: Peer, name: str) -> ErrorCode:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
    answer = await peer.ask(
        "create_topics", 5, topics=topics, timeout_ms=5_000, validate_only=False
    )
    code: ErrorCode = answer.topics[0].error_code
    return code


class Gate:
    """Syncs of files, which a test holds up or lets fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self._open = threading.Event()
        self._open.set()
        really = durability.sync_path
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)

        def sync(path: str) -> None:
            self._open.wait(30)
            if self.error is not None:
                raise self.error
            really(path)

        monkeypatch.setattr(durability, "sync_path", sync)

    def shut(self) -> None:
        self._open.clear()

    def open(self, error: OSError | None = None) -> None:
        """Let the syncs go on, which then fail with `error`."""
        self.error = error
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open()


@pytest.mark.parametrize("fails", [False, True])
async def test_no_record_or_commit_is_visible_before_it_is_durable(
    tmp_path: Path, gate: Gate, *, fails: bool
) -> None:
    config = Config(settings(tmp_path / "data", durability="fsync"))
    async with (
        Broker(config) as broker,
        connected(broker.address) as writer,
        connected(broker.address) as committer,
        connected(broker.address) as reader,
        connected(broker.address) as offsets,
    ):
        await broker.groups.loaded()
        assert await created(reader, "orders") is ErrorCode.none
        assert await produce(writer, b"durable") is ErrorCode.none
        assert await committed(committer, "g", 1) is ErrorCode.none
        gate.shut()
        writer.send(writer.request("produce", 8, **produced(b"pending")))
        committer.send(committer.request("offset_commit", 7, **commit("g", 2)))
        log = broker.topics.log("orders", 0)
        assert log is not None
        while log.end_offset < 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        found = await fetch(reader, 1)
        assert (found.error_code, found.high_watermark, bytes(found.records or b"")) == (0, 1, b"")
        assert found.last_stable_offset == 1
        assert (await latest(reader)).offset == 1
        assert (await latest(reader, -3)).offset == 0, "the record with the largest timestamp"
        asking = asyncio.ensure_future(offset_of(offsets, "g"))
        done, _ = await asyncio.wait((asking,), timeout=0.05)
        assert not done or asking.result() == (ErrorCode.none, 1)
        assert await writer.is_silent(0.01)
        gate.open(OSError(errno.EIO, "Input/output error") if fails else None)
        answer = await writer.answer("produce", 8)
        code = answer.responses[0].partition_responses[0].error_code
        other = (await committer.answer("offset_commit", 7)).topics[0].partitions[0].error_code
        assert bool(code) is fails
        assert bool(other) is fails
        if fails:
            assert code is FAILED
            assert (await latest(reader)).offset == 1
            await asking
            gate.open()
            await until(lambda: not broker.logs.problems)
            await until(lambda: broker.groups.is_loaded)
            assert await offset_of(offsets, "g") == (ErrorCode.none, 1)
            assert await values(reader) == [b"durable"]
            assert await produce(writer, b"again") is ErrorCode.none
        else:
            assert (await asking)[0] is ErrorCode.none
            assert await offset_of(offsets, "g") == (ErrorCode.none, 2)
            assert await values(reader) == [b"durable", b"pending"]


async def health(address: Address | None) -> tuple[int, dict[str, Any]]:
    assert address is not None
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


def two_groups() -> tuple[str, str]:
    """Groups of different shards."""
    other = next(f"g{at}" for at in range(99) if shard_of(f"g{at}") != shard_of("g"))
    return "g", other


def shard_of(group: str) -> int:
    return partition_for(group, SHARDS)


async def with_commits(path: Path, *groups: str) -> None:
    async with Broker(Config(settings(path))) as broker, connected(broker.address) as peer:
        await broker.groups.loaded()
        assert await created(peer, "orders") is ErrorCode.none
        for offset in range(1, 6):
            for group in groups:
                assert await committed(peer, group, offset) is ErrorCode.none


async def refusals(peer: Peer, group: str) -> set[ErrorCode]:
    """What the requests of a group get."""
    join = await peer.ask(
        "join_group",
        5,
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    heartbeat = await peer.ask(
        "heartbeat", 3, group_id=group, generation_id=1, member_id="m", group_instance_id=None
    )
    described = await peer.ask("describe_groups", 5, groups=[group])
    return {
        join.error_code,
        heartbeat.error_code,
        described.groups[0].error_code,
        await committed(peer, group, 9),
        (await offset_of(peer, group))[0],
    }


async def test_a_damaged_shard_refuses_its_groups_alone(tmp_path: Path) -> None:
    group, other = two_groups()
    await with_commits(tmp_path / "data", group, other)
    stored = tmp_path / "data" / f"{OFFSETS_TOPIC}-{shard_of(group)}" / f"{0:020}.log"
    content = bytearray(stored.read_bytes())
    content[80] ^= 1
    stored.write_bytes(content)
    config = Config(settings(tmp_path / "data", **{"http.listen": "127.0.0.1:0"}))
    async with Broker(config) as broker, connected(broker.address) as peer:
        await until(lambda: broker.groups.statistics()["shards"]["active"] == SHARDS - 1)
        assert await refusals(peer, group) == {ErrorCode.not_coordinator}
        assert await offset_of(peer, other) == (ErrorCode.none, 5)
        assert await committed(peer, other, 7) is ErrorCode.none
        assert await offset_of(peer, other) == (ErrorCode.none, 7)
        assert await produce(peer, b"a") is ErrorCode.none
        status, told = await health(broker.http_address)
        assert status == 503
        assert any(str(stored) in reason for reason in told["reasons"])
        assert any("1 of 4 group partitions" in reason for reason in told["reasons"])
    assert stored.read_bytes() == bytes(content)


async def test_a_shard_that_cannot_be_read_serves_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, other = two_groups()
    await with_commits(tmp_path / "data", group, other)
    really, name = recovery.load, f"{OFFSETS_TOPIC}-{shard_of(group)}"

    def load(path: str, *arguments: Any, **options: Any) -> Any:
        if path.endswith(name):
            raise OSError(errno.EIO, "Input/output error", path)
        return really(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "load", load)
        broker = Broker(Config(settings(tmp_path / "data")))
        await broker.start()
    async with contextlib.aclosing(_closing(broker)), connected(broker.address) as peer:
        await until(lambda: broker.groups.statistics()["shards"]["active"] == SHARDS - 1)
        assert await offset_of(peer, group) == (ErrorCode.not_coordinator, -1)
        assert await offset_of(peer, other) == (ErrorCode.none, 5)
        await broker.logs.reopen()
        await until(lambda: broker.groups.is_loaded)
        assert await offset_of(peer, group) == (ErrorCode.none, 5)
        assert await committed(peer, group, 6) is ErrorCode.none
        await broker.close()
    async with Broker(Config(settings(tmp_path / "data"))) as broker:
        await broker.groups.loaded()
        async with connected(broker.address) as peer:
            assert await offset_of(peer, group) == (ErrorCode.none, 6)


async def _closing(broker: Broker) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await broker.close()


def test_damaged_metadata_ends_the_start_with_code_2(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def create_topics() -> None:
        async with Broker(Config(settings(data))) as broker, connected(broker.address) as peer:
            for name in ("a", "b", "c"):
                assert await created(peer, name) is ErrorCode.none

    asyncio.run(create_topics())
    stored = data / "__cluster_metadata-0" / f"{0:020}.log"
    content = bytearray(stored.read_bytes())
    content[80] ^= 1
    stored.write_bytes(content)
    server = ServerProcess("--data", str(data), log=tmp_path / "log")
    assert server.wait(30) == 2
    told = (tmp_path / "log").read_text()
    for part in (str(stored), "byte 0", "offset 0", "restore the file from a backup"):
        assert part in told
    assert "kohort repair" in told
    assert "Traceback" not in told
    assert stored.read_bytes() == bytes(content)


# A real file system that is full


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    if shutil.which("mount") is None or os.geteuid():
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextlib.contextmanager
def served(data: Path, log: Path) -> Iterator[tuple[ServerProcess, tuple[str, int]]]:
    server = ServerProcess(
        "--data", str(data), log=log, settings={"offsets.topic.num.partitions": str(SHARDS)}
    )
    try:
        host, _, port = server.address.rpartition(":")
        yield server, (host, int(port))
    finally:
        server.kill()


async def fill_up(peer: Peer, acknowledged: list[bytes], committed_offsets: list[int]) -> None:
    """Produce until the disk is full, then commit until it is, then create a topic."""
    await committed_at_last(peer, 0)
    committed_offsets.append(0)
    for size in (200_000, 20_000, 2_000, 200):
        while True:
            value = b"%06d" % len(acknowledged) + bytes(size)
            code = await produce(peer, value)
            if code:
                assert code is FAILED
                break
            acknowledged.append(value)
    while True:
        code = await committed(peer, "g", len(committed_offsets))
        if code:
            assert code is ErrorCode.not_coordinator, "clients look for the coordinator and retry"
            break
        committed_offsets.append(len(committed_offsets))
    assert await created(peer, "more") is FAILED


async def committed_at_last(peer: Peer, offset: int) -> None:
    async with asyncio.timeout(30):
        while await committed(peer, "g", offset):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)


async def test_a_full_disk_and_space_again(small: Path, tmp_path: Path) -> None:
    filler = small / "filler"
    filler.write_bytes(bytes(3 << 20))
    acknowledged: list[bytes] = []
    offsets: list[int] = []
    with served(small / "data", tmp_path / "log") as (_, address):
        async with connected(address) as peer:
            assert await created(peer, "orders") is ErrorCode.none
            await fill_up(peer, acknowledged, offsets)
            assert await values(peer) == acknowledged
            filler.unlink()
            value = b"there is space again"
            assert await produce(peer, value) is ErrorCode.none
            acknowledged.append(value)
            await committed_at_last(peer, 77)
            assert await created(peer, "more") is ErrorCode.none
            assert await values(peer) == acknowledged
    await holds(small, tmp_path, acknowledged, 77, {"orders", "more"})


async def test_killed_while_the_disk_is_full(small: Path, tmp_path: Path) -> None:
    filler = small / "filler"
    filler.write_bytes(bytes(2 << 20))
    acknowledged: list[bytes] = []
    offsets: list[int] = []
    with served(small / "data", tmp_path / "log") as (server, address):
        async with connected(address) as peer:
            assert await created(peer, "orders") is ErrorCode.none
            await fill_up(peer, acknowledged, offsets)
            server.kill()
    # still full
    with served(small / "data", tmp_path / "log-2") as (server, address):
        async with connected(address) as peer:
            assert await values(peer) == acknowledged
            assert await produce(peer, bytes(100_000)) is FAILED
            server.kill()
    filler.unlink()
    await holds(small, tmp_path, acknowledged, offsets[-1], {"orders"})


async def holds(
    small: Path, tmp_path: Path, acknowledged: list[bytes], offset: int, topics: set[str]
) -> None:
    """Assert that a new server has all that was acknowledged, and works."""
    with served(small / "data", tmp_path / "log-3") as (_, address):
        async with connected(address) as peer:
            assert await values(peer) == acknowledged
            async with asyncio.timeout(30):
                while (found := await offset_of(peer, "g"))[0]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert found[1] == offset
            answer = await peer.ask("metadata", 8, topics=None, allow_auto_topic_creation=False)
            assert {each.name for each in answer.topics if not each.is_internal} == topics
            assert await produce(peer, b"on") is ErrorCode.none
            assert await created(peer, "new") is ErrorCode.none


# A data directory that becomes read-only


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A directory of the user that this process has the rights of until the end of the test."""
    path = Path(tempfile.mkdtemp())
    if not os.geteuid():
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        os.seteuid(os.getuid())
        shutil.rmtree(path, ignore_errors=True)


async def test_a_directory_that_becomes_read_only(as_nobody: Path) -> None:
    data = as_nobody / "data"
    config = Config(settings(data, **{"num.partitions": 1}))
    async with Broker(config) as broker, connected(broker.address) as peer:
        await broker.groups.loaded()
        assert await created(peer, "orders") is ErrorCode.none
        assert await created(peer, "empty") is ErrorCode.none
        assert await produce(peer, b"a") is ErrorCode.none
        paths = [data, data / "orders-0", data / "empty-0"]
        for path in paths:
            path.chmod(0o555)
        assert await created(peer, "more") is FAILED
        assert await produce(peer, b"a", "empty") is FAILED, "its file cannot be made"
        assert await values(peer) == [b"a"]
        for path in paths:
            path.chmod(0o755)
        assert await created(peer, "more") is ErrorCode.none
        assert await produce(peer, b"a", "empty") is ErrorCode.none
        assert await produce(peer, b"b") is ErrorCode.none
        assert await values(peer) == [b"a", b"b"]
        assert await values(peer, "empty") == [b"a"]
