"""What clients can make a server keep: each case against a server process."""

import os
import socket
import struct
import time
from pathlib import Path

from kio.serial import entity_reader

from kohort.errors import ErrorCode
from kohort.protocol.batches import Record, build
from kohort.protocol.error_codes import errors_in
from kohort.protocol.message_classes import load_response_schema
from live.server.server import SOON, Server, frame, serving
from waiting import wait_until

NOW = int(time.time() * 1000)


class Client:
    """A blocking connection."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(server.address, timeout=SOON)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def response(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.response()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return bytes(data)


def fetch(topic: str, max_bytes: int = 55 << 20) -> bytes:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": max_bytes}
    return frame(
        "fetch",
        11,
        max_wait=0,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )


def produce(topic: str, records: bytes) -> bytes:
    partition = {"index": 0, "records": records}
    return frame(
        "produce",
        8,
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )


def test_forty_readers_that_never_read(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        writer = Client(server)
        topics = [{"name": "big"}]
        writer.ask(frame("metadata", 8, topics=topics, allow_auto_topic_creation=True))
        batch = build([Record(None, os.urandom(1_000_000), (), NOW)])
        for _ in range(60):
            writer.ask(produce("big", batch))
        before = server.resident_mb
        readers = [Client(server) for _ in range(40)]
        for reader in readers:
            reader.send(fetch("big"))
        time.sleep(2)
        grown = server.resident_mb - before
        print(f"forty readers: {before:.0f} MB and {grown:.0f} MB more")
        assert grown < 400
        # The others are still served.
        assert len(writer.ask(fetch("big", 1 << 20))) > 1_000_000
        for reader in readers:
            reader.socket.close()
        wait_until(lambda: server.resident_mb - before < 150)


def commit(group: str, partitions: int) -> bytes:
    offsets = [{"partition_index": n, "committed_offset": n} for n in range(partitions)]
    return frame(
        "offset_commit",
        8,
        group_id=group,
        topics=[{"name": "wide", "partitions": offsets}],
    )


def errors(response: bytes) -> set[int]:
    """Of an OffsetCommit v8."""
    entity, _ = entity_reader(load_response_schema(8, 8))(response, 5)
    return errors_in(entity)


def test_a_commit_of_a_long_group_id_harms_nobody_else(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1", "num.partitions": "4000"}
    with serving(tmp_path, settings | {"storage": "memory"}) as server:
        client = Client(server)
        topics = [{"name": "wide"}]
        client.ask(frame("metadata", 8, topics=topics, allow_auto_topic_creation=True))
        before = server.resident_mb
        assert errors(client.ask(commit("orders", 3))) == set()
        large = errors(client.ask(commit("g" * 32_000, 4_000)))
        assert large == {ErrorCode.unknown_server_error}
        assert errors(client.ask(commit("orders", 4_000))) == set()
        print(f"long group id: {server.resident_mb - before:.0f} MB more")
        assert "failed" not in (tmp_path / "server.log").read_text()
        assert server.resident_mb - before < 50


def join(group: str, client_id: str, reason: str = "") -> bytes:
    return frame(
        "join_group",
        9,
        client_id=client_id,
        group_id=group,
        session_timeout=1_800_000,
        rebalance_timeout=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
        reason=reason,
    )


def test_pending_ids_with_long_client_ids(tmp_path: Path) -> None:
    with serving(tmp_path, {"storage": "memory"}) as server:
        client = Client(server)
        client.ask(join("g", "warm"))
        before = server.resident_mb
        for n in range(6_000):
            client.ask(join(f"g{n % 500}", "c" * 30_000))
        grown = server.resident_mb - before
        print(f"6,000 pending ids: {grown:.0f} MB more")
        assert grown < 150
