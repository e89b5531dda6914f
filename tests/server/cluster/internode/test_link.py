"""One connection to another node, which responds when it is told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kohort.protocol.apis import API_VERSIONS
from kohort.server.cluster.internode import NodeConnection, NodeUnreachableError
from kohort.server.cluster.internode.link import Link


class Other:
    """The other node. Its responses are those of ApiVersions v0 without APIs."""

    def __init__(self) -> None:
        self.may_respond = asyncio.Event()
        self.asked = 0
        self.closed = asyncio.Event()
        self.accepted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = await reader.readexactly(size)
                self.asked += 1
                await self.may_respond.wait()
                response = request[4:8] + bytes(2) + bytes(4)
                writer.write(len(response).to_bytes(4, "big") + response)
        except asyncio.IncompleteReadError:
            self.closed.set()
        writer.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Other]:
    other = Other()
    async with await asyncio.start_unix_server(other.serve, tmp_path / "s"):
        yield other


async def connect(tmp_path: Path) -> Link:
    return Link(*await asyncio.open_unix_connection(tmp_path / "s"))


async def test_requests_in_flight_of_an_expired_session_get_their_responses(
    tmp_path: Path, other: Other
) -> None:
    async def one_session() -> Link:
        link = await connect(tmp_path)
        link.expire_in(0)
        return link

    connection = NodeConnection(one_session)
    asking = [asyncio.create_task(connection.ask(API_VERSIONS, 0)) for _ in range(2)]
    while other.asked < 2:  # noqa: ASYNC110 - asked by the tasks
        await asyncio.sleep(0)
    assert other.accepted == 2
    assert not other.closed.is_set()
    other.may_respond.set()
    await asyncio.gather(*asking)
    async with asyncio.timeout(30):
        await other.closed.wait()
    connection.close()


async def test_a_link_that_is_lost_takes_no_request(tmp_path: Path, other: Other) -> None:
    link = await connect(tmp_path)
    link.end("closed")
    assert not link.takes_requests
    with pytest.raises(NodeUnreachableError):
        await link.ask(API_VERSIONS, 0)
    assert other.asked == 0
