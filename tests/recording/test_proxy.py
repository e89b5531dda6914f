"""The proxy between clients and a Kafka: it forwards everything, and stands for all brokers."""

import asyncio
import dataclasses
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.net import Connection
from kohort.errors import KohortError
from kohort.protocol.building import default
from kohort.protocol.message_classes import (
    API_KEYS,
    API_NAMES,
    known_versions,
    load_response_schema,
)
from kohort.recording import (
    Opened,
    Proxy,
    RecordedRequest,
    Recorder,
    RecordingError,
    RecordingReader,
    RecordingWriter,
    replay,
)
from kohort.recording.advertised_addresses import (
    Address,
    addresses,
    has_addresses,
    with_addresses,
)
from kohort.recording.message_fields import fields_of
from kohort.testing import AsyncEmbeddedKafka
from recording.messages import response_frame

ANY = ("127.0.0.1", 0)


@asynccontextmanager
async def proxied(*brokers: Address, path: Path) -> AsyncIterator[Proxy]:
    with Recorder(path, time.monotonic) as recorder:
        async with Proxy(ANY, brokers, recorder) as proxy:
            yield proxy


def address(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def bootstrap_of(proxy: Proxy) -> str:
    return "{}:{}".format(*proxy.address)


@asynccontextmanager
async def client_of(kafka: AsyncEmbeddedKafka, path: Path) -> AsyncIterator[Admin]:
    """A client that reaches the server through a proxy."""
    async with (
        proxied(address(kafka.bootstrap), path=path) as proxy,
        Cluster(ClientConfig(bootstrap=bootstrap_of(proxy))) as cluster,
    ):
        yield Admin(cluster)


async def test_all_requests_of_a_client_come_through_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncEmbeddedKafka() as kafka:
        kafka.topic("orders")
        direct = kafka.record(tmp_path / "direct.jsonl")
        async with client_of(kafka, path) as admin:
            assert not (await admin.list_groups()).groups
            await admin.describe_groups(["billing"])  # by the coordinator
        direct.stop()
    through, seen_by_server = (apis(each) for each in (path, tmp_path / "direct.jsonl"))
    assert through == seen_by_server
    assert API_KEYS["find_coordinator"] in through


def apis(path: Path) -> list[int]:
    with RecordingReader(path) as reader:
        return [event.api_key for event in reader if isinstance(event, RecordedRequest)]


async def test_a_recording_of_the_proxy_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncEmbeddedKafka() as kafka, client_of(kafka, path) as admin:
        await admin.create_topic("orders", partitions=2)
    async with AsyncEmbeddedKafka() as other:
        result = await replay(path, ClientConfig(bootstrap=other.bootstrap))
        assert result.differences == []
        assert other.records("orders") == []  # it exists
    async with AsyncEmbeddedKafka() as with_topic:
        with_topic.topic("orders")
        differences = (await with_topic.replay(path)).differences
        assert "TOPIC_ALREADY_EXISTS" in [difference.replayed for difference in differences]


Respond = Callable[[bytes], bytes]


@asynccontextmanager
async def scripted(respond: Respond) -> AsyncIterator[Address]:
    """A broker whose response to each frame is that of a function."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = respond(await reader.readexactly(size))
                writer.write(struct.pack(">i", len(frame)) + frame)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(serve, *ANY)
    try:
        host, port, *_ = server.sockets[0].getsockname()
        yield host, port
    finally:
        server.close()


def correlated(frame: bytes, response: bytes) -> bytes:
    return frame[4:8] + response[4:]


def api_versions(*more: tuple[int, int, int]) -> bytes:
    known = [(3, 0, 9), (18, 0, 3), (10, 0, 3)]
    keys = [
        {"api_key": key, "min_version": first, "max_version": last}
        for key, first, last in [*known, *more]
    ]
    return response_frame("api_versions", 3, api_keys=keys)


async def test_each_broker_of_a_cluster_has_a_port_of_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    brokers: list[Address] = []

    def respond(frame: bytes) -> bytes:
        if frame[1] == API_KEYS["api_versions"]:
            return correlated(frame, api_versions())
        values = [
            {"node_id": node, "host": host, "port": port}
            for node, (host, port) in enumerate(brokers)
        ]
        return correlated(frame, response_frame("metadata", 9, brokers=values))

    async with scripted(respond) as first, scripted(respond) as second:
        brokers += [first, second]
        async with proxied(first, path=path) as proxy:
            config = ClientConfig(bootstrap=bootstrap_of(proxy))
            connection = await Connection.open(proxy.address, config)
            advertised = addresses(await connection.send("metadata", max_version=9))
            assert len({*advertised.values(), proxy.address, first, second}) == 5
            other = await Connection.open(advertised[1], config)
            assert addresses(await other.send("metadata", max_version=9)) == advertised
            await connection.close()
            await other.close()
    with RecordingReader(path) as reader:
        assert [event.node for event in reader if isinstance(event, Opened)] == [None, 1]


async def test_apis_that_cannot_be_decoded_are_not_offered(tmp_path: Path) -> None:
    def respond(frame: bytes) -> bytes:
        return correlated(frame, api_versions((999, 0, 3), (1, 0, 99)))

    async with scripted(respond) as broker, proxied(broker, path=tmp_path / "r") as proxy:
        connection = await Connection.open(proxy.address, ClientConfig())
        assert connection.version("fetch") == known_versions(API_KEYS["fetch"])[1]
        response = await connection.send("api_versions", max_version=3)
        assert 999 not in {api.api_key for api in response.api_keys}
        await connection.close()


async def test_a_client_is_cut_off_if_no_broker_can_be_reached(tmp_path: Path) -> None:
    async with scripted(bytes) as closed:
        pass
    async with proxied(closed, path=tmp_path / "recording.jsonl") as proxy:
        reader, writer = await asyncio.open_connection(*proxy.address)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    async with scripted(bytes) as taken:
        recorder = Recorder(tmp_path / "recording.jsonl", time.monotonic)
        with recorder, pytest.raises(KohortError, match=f"cannot listen on 127.*:{taken[1]}"):
            await Proxy(taken, (taken,), recorder).__aenter__()


async def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(writer: RecordingWriter, _: object) -> None:
        raise RecordingError(f"{writer.path} cannot be written: No space left on device")

    async with scripted(bytes) as broker, proxied(broker, path=tmp_path / "r") as proxy:
        monkeypatch.setattr(RecordingWriter, "add", fail)
        reader, writer = await asyncio.open_connection(*proxy.address)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert "No space left on device" in await proxy.failure


def with_one_address(message_type: Any) -> Any:
    """A response with an address in the first place that can have one."""
    values = {}
    names = {name for name, _ in fields_of(message_type)}
    for name, field_shape in fields_of(message_type):
        if name == "host" and "port" in names:
            values[name] = "inside"
        elif name == "port":
            values[name] = 9_092
        elif field_shape.is_struct and field_shape.is_array:
            values[name] = (with_one_address(field_shape.inner),)
        elif field_shape.is_struct:
            values[name] = with_one_address(field_shape.inner)
    own = {field.name: default(field) for field in dataclasses.fields(message_type)}
    return message_type(**{**own, **values})


async def outside(node: int, broker: Address) -> Address:
    return "proxy", 1


Rewrite = Callable[[int, Address], Awaitable[Address]]

WITH_ADDRESSES = [
    (api_key, version)
    for api_key in API_NAMES
    for version in range(known_versions(api_key)[0], known_versions(api_key)[1] + 1)
    if has_addresses(api_key, version)
]


def test_apis_of_clients_with_addresses_are_known() -> None:
    names = {API_NAMES[api_key] for api_key, _ in WITH_ADDRESSES}
    assert names >= {"metadata", "find_coordinator", "describe_cluster", "produce", "fetch"}


@pytest.mark.parametrize(("api_key", "version"), WITH_ADDRESSES)
async def test_no_address_of_a_broker_stays_in_a_response(api_key: int, version: int) -> None:
    message = with_one_address(load_response_schema(api_key, version))
    assert set(addresses(message).values()) == {("inside", 9_092)}
    rewritten = await with_addresses(message, outside)
    assert set(addresses(rewritten).values()) == {("proxy", 1)}
