"""Connections over real sockets: order, bounds, limits, bad peers, and the end."""

import asyncio
import logging
import socket
import struct
import tracemalloc

import pytest
import uvloop

from kohort.coordinator.requests import Heartbeat, JoinGroup
from kohort.coordinator.responses import HeartbeatResponse, JoinGroupResponse
from kohort.protocol.apis import APIS
from kohort.protocol.framing import MalformedError
from kohort.quotas import quota_entity
from kohort.security import ANONYMOUS, KafkaPrincipal
from kohort.server.net.connection import host_of
from kohort.server.net.connection_limits import ConnectionLimits
from kohort.server.net.creation_rate import AddressRates, CreationRate
from kohort.server.net.rate_limited_log import PER_PERIOD, RateLimitedLog
from kohort.server.net.request_memory import UNMETERED, RequestMemory
from kohort.server.net.request_queue import READ_AHEAD
from server import identities
from server.net.bench import Peer, Wire, listener

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
JOIN = {
    "group_id": "g",
    "session_timeout_ms": 6000,
    "member_id": "",
    "protocol_type": "c",
    "protocols": [],
}


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()],
    ids=["asyncio", "uvloop"],
    scope="module",
)
def event_loop_policy(request) -> asyncio.AbstractEventLoopPolicy:
    """Both loops: their transports differ in what they do when."""
    return request.param


def serve_heartbeats(wire: Wire) -> None:
    wire.groups.answers[Heartbeat] = HeartbeatResponse()


async def slowly(_services, exchange, _request) -> None:
    """Handles a request that is not answered at once."""
    await asyncio.sleep(0.02)
    exchange.respond_encoded(b"\0\0")


# One request at a time, in order


async def test_a_request_and_its_answer() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        statistics = wire.listener.statistics()
        assert statistics.connections == 1
        assert statistics.requests == {"heartbeat": 1}
        assert (statistics.bytes_in, statistics.bytes_out) == (
            len(peer.request("heartbeat", 4, **HEARTBEAT)),
            16,
        )


async def test_pipelined_requests_are_answered_in_order_and_written_together() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        peer.send(
            b"".join(peer.request("heartbeat", version % 5, **HEARTBEAT) for version in range(500))
        )
        assert [await peer.correlation_id() for _ in range(500)] == list(range(1, 501))


async def test_byte_by_byte() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        for byte in peer.request("heartbeat", 4, **HEARTBEAT) + peer.request(
            "heartbeat", 0, **HEARTBEAT
        ):
            peer.send(bytes((byte,)))
            await asyncio.sleep(0)
        assert [await peer.correlation_id(), await peer.correlation_id()] == [1, 2]


async def test_a_heartbeat_behind_a_parked_join_is_answered_after_it() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer, other = await wire.peer(), await wire.peer()
        peer.send(peer.request("join_group", 0, **JOIN) + peer.request("heartbeat", 0, **HEARTBEAT))
        await wire.until(lambda: wire.groups.parked)
        # only its own connection waits
        assert (await other.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert await peer.is_silent()
        assert [type(request) for request in wire.groups.submitted] == [JoinGroup, Heartbeat]
        wire.groups.parked[0].on_response(JoinGroupResponse(generation=3))
        assert [await peer.correlation_id(), await peer.correlation_id()] == [1, 2]


async def test_a_handler_may_be_a_coroutine() -> None:
    async with Wire() as wire:
        wire.handle("heartbeat", slowly)
        peer = await wire.peer()
        peer.send(peer.request("heartbeat", 0, **HEARTBEAT) * 2)
        assert [await peer.content(), await peer.content()] == [b"\0\0\0\1\0\0"] * 2


async def test_no_answer_lets_the_next_request_come() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        wire.handle(
            "produce", lambda _services, exchange, _request: exchange.end_without_response()
        )
        peer = await wire.peer()
        peer.send(
            peer.request("produce", 9, transactional_id=None, acks=0, timeout_ms=1, topic_data=[])
        )
        assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


async def test_an_exchange_has_the_header_and_the_peer_of_its_request() -> None:
    seen = []

    def look(_services, exchange, _request) -> None:
        seen.append(
            (exchange.api_key, exchange.version, exchange.correlation_id, exchange.client_id)
        )
        seen.append((exchange.client_host, exchange.peer))
        assert f"api=12 v4 id={exchange.correlation_id} open" in repr(exchange)
        exchange.respond_encoded(b"\0" * 7)
        with pytest.raises(RuntimeError, match="ended before"):
            exchange.end_without_response()

    async with Wire() as wire:
        wire.handle("heartbeat", look)
        peer = await wire.peer()
        await peer.ask("heartbeat", 4, **HEARTBEAT)
        assert seen == [(12, 4, 1, "test"), ("/127.0.0.1", identities.peer())]
        peer.send(peer.frame("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0\0", client_id=None))
        await peer.content()
        assert seen[2] == (12, 4, 2, "")


async def test_another_principal_is_that_of_the_requests_that_follow() -> None:
    alice = KafkaPrincipal("User", "alice")
    seen = []

    def look(_services, exchange, _request) -> None:
        seen.append(exchange.peer.principal)
        exchange.connection.authenticated(alice)
        seen.append(exchange.peer)
        exchange.respond_encoded(b"\0" * 7)

    async with Wire() as wire:
        wire.handle("heartbeat", look)
        peer = await wire.peer()
        await peer.ask("heartbeat", 4, **HEARTBEAT)
        await peer.ask("heartbeat", 4, **HEARTBEAT)
    assert seen == [ANONYMOUS, identities.peer(alice), alice, identities.peer(alice)]


def test_addresses_look_as_in_java() -> None:
    assert host_of(("127.0.0.1", 5)) == "127.0.0.1"
    assert host_of(("::1", 5, 0, 0)) == "0:0:0:0:0:0:0:1"
    assert host_of(("fe80::1%2", 5, 0, 2)) == "fe80:0:0:0:0:0:0:1"
    assert host_of("") == ""


# Bad peers


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 1001),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 10) + struct.pack(">hhih", 999, 0, 1, -1),  # unknown API
        struct.pack(">i", 10) + struct.pack(">hhih", 12, 5, 1, -1),  # unserved version
        struct.pack(">i", 10) + struct.pack(">hhih", 0, 2, 1, -1),  # advertised, not served
        struct.pack(">i", 10) + struct.pack(">hhih", 12, 0, 1, -1),  # no body
        struct.pack(">i", 10) + struct.pack(">hhih", 12, 0, 1, 500),  # client id beyond the frame
        struct.pack(">i", 14) + struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 17) + struct.pack(">hhihb", 3, 12, 1, -1, 0) + b"\xff\xff\xff\xff\x7f\0",
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"tls" * 20,
    ],
)
async def test_bytes_that_are_no_request_close_the_connection_with_one_log_line(
    data: bytes, caplog
) -> None:
    async with Wire(request_bytes=1000) as wire:
        serve_heartbeats(wire)
        peer, other = await wire.peer(), await wire.peer()
        first = peer.request("heartbeat", 0, **HEARTBEAT)
        with caplog.at_level(logging.INFO):
            peer.send(first + data)
            # what was asked before is answered
            assert await peer.closed() == b"\0\0\0\x06\0\0\0\1\0\0"
        assert len(caplog.records) == 1
        assert "closing the connection from 127.0.0.1" in caplog.text
        assert caplog.records[0].exc_info is None
        assert wire.listener.statistics().malformed == 1
        assert (await other.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


@pytest.mark.parametrize("version", [-1, 6, 32_767])
async def test_api_versions_of_an_unserved_version_is_answered_in_v0(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        content = struct.pack(">hhi", 18, version, 77) + b"\0\x04test\0\x0ba newer body"
        peer.send(struct.pack(">i", len(content)) + content)
        answer = await peer.content()
        assert answer == bytes.fromhex("0000004d002300000001001200000005")
        # and the connection lives on
        assert len((await peer.ask("api_versions", 0)).api_keys) == len(APIS)


async def test_trailing_bytes_and_unknown_tags_are_ignored() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        body = b"\x02g\0\0\0\1\x02m\0"
        peer.send(peer.frame("heartbeat", 4, body + b"\0" + b"trailing bytes"))
        peer.send(peer.frame("heartbeat", 4, body + b"\x02\x08\x01a\x07\x01b"))
        peer.send(peer.frame("heartbeat", 0, b"\0\1g\0\0\0\1\0\1mtrailing"))
        assert [await peer.correlation_id() for _ in range(3)] == [1, 2, 3]
        assert {(request.group, request.member_id) for request in wire.groups.submitted} == {
            ("g", "m")
        }


async def test_a_handler_that_raises_closes_only_its_connection(caplog) -> None:
    def broken(_services, _exchange, _request) -> None:
        raise KeyError("a bug")

    async def broken_later(_services, _exchange, _request) -> None:
        await asyncio.sleep(0)
        raise ValueError("another")

    async with Wire() as wire:
        serve_heartbeats(wire)
        wire.handle("join_group", broken)
        wire.handle("sync_group", broken_later)
        peers = [await wire.peer() for _ in range(3)]
        peers[0].send(peers[0].request("join_group", 0, **JOIN))
        peers[1].send(
            peers[1].request("sync_group", 0, group_id="g", generation_id=1, member_id="m")
        )
        assert [await peers[0].closed(), await peers[1].closed()] == [b"", b""]
        assert (await peers[2].ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert [record.exc_info for record in caplog.records] == [None, None]
        assert "KeyError('a bug') at test_connection.py:" in caplog.records[0].getMessage()
        assert wire.listener.statistics().failed == 2


async def test_an_answer_that_cannot_be_written_closes_only_its_connection(caplog) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(peer.request("join_group", 0, **JOIN))
        await wire.until(lambda: wire.groups.parked)
        # v0 has 16-bit lengths; the runtime that brings the answer must not be disturbed.
        wire.groups.parked[0].on_response(JoinGroupResponse(member_id="m" * 40_000))
        assert await peer.closed() == b""
        assert "failed" in caplog.text


async def test_a_handler_may_hang_up() -> None:
    async with Wire() as wire:
        wire.handle(
            "produce",
            lambda _services, exchange, _request: exchange.close_with_reason(
                "acks=0 to an unknown topic"
            ),
        )
        peer = await wire.peer()
        peer.send(
            peer.request("produce", 9, transactional_id=None, acks=0, timeout_ms=1, topic_data=[])
            * 3
        )
        assert await peer.closed() == b""
        assert wire.listener.statistics().requests == {"produce": 1}


def test_a_flood_of_bad_peers_does_not_fill_the_log(caplog) -> None:
    now = 0.0
    log = RateLimitedLog(logging.getLogger("test"), clock=lambda: now)
    for _ in range(1000):
        log.log(logging.WARNING, "bad peer")
    assert len(caplog.records) == PER_PERIOD
    now = 60.0
    log.log(logging.WARNING, "bad peer")
    assert caplog.records[-2].getMessage() == (f"{1000 - PER_PERIOD} similar lines were suppressed")


# Peers that go


async def test_a_parked_join_survives_its_connection() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(peer.request("join_group", 4, **JOIN))
        await wire.until(lambda: wire.groups.parked)
        peer.leave()
        await wire.until(lambda: wire.groups.closed)
        assert wire.groups.closed == [wire.groups.parked[0].connection]
        wire.groups.parked[0].on_response(JoinGroupResponse())  # goes nowhere, and disturbs nobody
        assert wire.listener.statistics().connections == 0


async def test_only_connections_that_sent_a_join_are_told_of() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        await peer.ask("heartbeat", 4, **HEARTBEAT)
        peer.leave()
        await wire.until(lambda: not wire.listener.statistics().connections)
        assert wire.groups.closed == []


async def test_a_waiting_handler_is_cancelled_with_its_connection() -> None:
    cancelled = asyncio.Event()

    async def forever(_services, _exchange, _request) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    async with Wire() as wire:
        wire.handle("fetch", forever)
        peer = await wire.peer()
        peer.send(peer.request("fetch", 4, max_wait_ms=3_600_000, min_bytes=1, topics=[]))
        await wire.until(lambda: wire.listener.metrics.requests)
        peer.leave()
        await asyncio.wait_for(cancelled.wait(), 60)


async def test_a_peer_that_sends_no_more_gets_the_answers_that_are_on_their_way() -> None:
    async with Wire() as wire:
        wire.handle("heartbeat", slowly)
        peer = await wire.peer()
        peer.send(peer.request("api_versions", 0) + peer.request("heartbeat", 0, **HEARTBEAT))
        peer.writer.write_eof()
        assert [await peer.correlation_id(), await peer.correlation_id()] == [1, 2]
        assert await peer.closed() == b""


async def test_a_join_of_a_peer_that_sends_no_more_is_not_waited_for() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(peer.request("join_group", 0, **JOIN))
        peer.writer.write_eof()
        assert await peer.closed() == b""
        assert wire.groups.closed == [wire.groups.parked[0].connection]


async def test_half_a_frame_and_gone() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(peer.request("heartbeat", 4, **HEARTBEAT)[:-3])
        await asyncio.sleep(0.01)
        peer.leave()
        await wire.until(lambda: not wire.listener.statistics().connections)
        assert wire.listener.statistics().malformed == 0


# Bounds


async def test_a_peer_that_sends_ahead_is_not_read_further() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        peer.send(peer.request("join_group", 0, **JOIN))
        await wire.until(lambda: wire.groups.parked)
        heartbeat = peer.request("heartbeat", 4, **HEARTBEAT)
        count = 20 * READ_AHEAD // len(heartbeat)
        peer.send(heartbeat * count)
        await asyncio.sleep(0.05)
        read = wire.listener.statistics().bytes_in
        assert read < 8 * READ_AHEAD
        await asyncio.sleep(0.05)
        assert wire.listener.statistics().bytes_in == read
        wire.groups.parked[0].on_response(JoinGroupResponse())
        for _ in range(count + 1):
            await peer.content()


async def test_a_peer_that_does_not_read_is_not_answered_further() -> None:
    big = bytes(300_000)
    served = 0

    def answer(_services, exchange, _request) -> None:
        nonlocal served
        served += 1
        exchange.respond_encoded(big)

    async with Wire() as wire:
        wire.handle("heartbeat", answer)
        with socket.create_connection((wire.host, wire.port)) as slow:
            frame = Peer(None, None).request("heartbeat", 4, **HEARTBEAT)  # type: ignore[arg-type]
            slow.sendall(frame * 100)
            await wire.until(lambda: served)
            before = 0
            while before != served:
                before = served
                await asyncio.sleep(0.1)
            assert served < 50
            slow.setblocking(False)
            loop, got = asyncio.get_running_loop(), 0
            while got < 100 * (len(big) + 9):
                got += len(await asyncio.wait_for(loop.sock_recv(slow, 1 << 20), 60))
            assert served == 100


async def test_one_connection_does_not_keep_the_others_waiting() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        greedy, modest = await wire.peer(), await wire.peer()
        greedy.send(greedy.request("heartbeat", 4, **HEARTBEAT) * 1500)
        await wire.until(lambda: wire.listener.metrics.requests)
        before = wire.listener.metrics.requests[12]
        await modest.ask("heartbeat", 4, **HEARTBEAT)
        assert before < 1500
        for _ in range(1500):
            await greedy.content()


async def test_the_largest_request_is_taken_in_pieces() -> None:
    async with Wire(request_bytes=3_000_000, queued_bytes=1_000_000) as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        body = b"\x02g\0\0\0\1\x02m\0\0"
        frame = peer.frame("heartbeat", 4, body + bytes(3_000_000 - len(body) - 15))
        assert len(frame) == 3_000_004
        peer.send(frame)
        assert await peer.correlation_id() == 1
        assert wire.listener.statistics().memory_bytes == 0


async def test_large_requests_wait_for_memory_and_all_get_it() -> None:
    async with Wire(queued_bytes=300_000) as wire:
        serve_heartbeats(wire)
        peers = [await wire.peer() for _ in range(6)]
        frames = [
            peer.frame("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0\0" + bytes(200_000)) for peer in peers
        ]
        for peer, frame in zip(peers, frames, strict=True):
            peer.send(frame[:1000])
        await wire.until(lambda: wire.listener.statistics().bytes_in >= 6000)
        assert 200_000 < wire.listener.statistics().memory_bytes <= 300_000  # one has it, five wait
        for peer, frame in zip(peers, frames, strict=True):
            peer.send(frame[1000:])
        await asyncio.gather(*(peer.correlation_id() for peer in peers))
        assert wire.listener.statistics().memory_bytes == 0


async def test_a_connection_that_goes_gives_its_memory_back() -> None:
    async with Wire(queued_bytes=300_000) as wire:
        serve_heartbeats(wire)
        gone, waits, stays = await wire.peer(), await wire.peer(), await wire.peer()
        gone.send(struct.pack(">i", 250_000) + b"half")
        await wire.until(lambda: wire.listener.statistics().memory_bytes)
        waits.send(struct.pack(">i", 250_000) + b"half")
        frame = stays.frame("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0\0" + bytes(290_000))
        stays.send(frame)
        assert await stays.is_silent()
        waits.leave()  # noticed when it gets its memory: until then nothing is read from it
        gone.leave()
        assert await stays.correlation_id() == 1
        assert wire.listener.statistics().memory_bytes == 0


class Waiter:
    def __init__(self) -> None:
        self.is_open = True
        self.granted: list[int] = []

    def memory_granted(self, size: int) -> None:
        self.granted.append(size)


def test_memory_is_first_come_first_served() -> None:
    memory, big, small, gone = RequestMemory(100), Waiter(), Waiter(), Waiter()
    assert memory.take(60, big)
    assert not memory.take(60, big)
    assert not memory.take(99, gone)
    assert not memory.take(10, small)  # would fit, but others came before
    gone.is_open = False
    memory.release(60)
    assert (big.granted, gone.granted, small.granted) == ([60], [], [10])
    assert memory.used == 70


def test_a_lost_connection_does_not_hold_up_those_that_waited_behind_it() -> None:
    memory, big, gone, small = RequestMemory(100), Waiter(), Waiter(), Waiter()
    assert memory.take(60, big)
    assert not memory.take(99, gone)
    assert not memory.take(10, small)
    gone.is_open = False
    memory.forget(gone)
    memory.forget(big)  # it does not wait
    assert (gone.granted, small.granted) == ([], [10])
    assert memory.take(30, gone)
    assert memory.used == 100


def test_more_than_all_memory_is_given_to_one_at_a_time() -> None:
    memory, waiter = RequestMemory(100), Waiter()
    assert memory.take(500, waiter)
    assert not memory.take(1, waiter)
    memory.release(500)
    assert waiter.granted == [1]
    assert RequestMemory(-1).take(1 << 40, waiter)


async def test_a_thousand_idle_connections() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peers = [await wire.peer() for _ in range(1000)]
        assert wire.listener.statistics().connections == 1000
        for peer in (peers[0], peers[-1]):
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


async def test_more_than_max_connections_wait_until_one_ends() -> None:
    async with Wire(connections=2) as wire:
        serve_heartbeats(wire)
        first, second, third = [await wire.peer() for _ in range(3)]
        third.send(third.request("heartbeat", 4, **HEARTBEAT))
        assert (await second.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert await third.is_silent()
        assert wire.listener.statistics().accepted == 2
        first.leave()
        assert await third.correlation_id() == 1
        assert wire.listener.statistics().connections == 2


async def test_limits_of_all_listeners_do_not_keep_out_nodes() -> None:
    async with Wire(connections=1, creation_rate=1, for_nodes="PLAINTEXT") as wire:
        serve_heartbeats(wire)
        for peer in [await wire.peer() for _ in range(3)]:
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


async def test_a_limit_of_their_own_listener_holds_up_nodes() -> None:
    async with Wire(connections_of={"PLAINTEXT": 1}, for_nodes="PLAINTEXT") as wire:
        serve_heartbeats(wire)
        first, second = [await wire.peer() for _ in range(2)]
        second.send(second.request("heartbeat", 4, **HEARTBEAT))
        assert (await first.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert await second.is_silent()


async def test_max_connections_of_a_listener_that_clients_raise() -> None:
    async with Wire(connections_of={"PLAINTEXT": 1}) as wire:
        serve_heartbeats(wire)
        first, second = [await wire.peer() for _ in range(2)]
        second.send(second.request("heartbeat", 4, **HEARTBEAT))
        assert (await first.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert await second.is_silent()
        wire.listener.limit(ConnectionLimits())
        assert await second.correlation_id() == 1


async def test_max_connections_per_ip() -> None:
    async with Wire(connections_per_ip=1) as wire:
        serve_heartbeats(wire)
        first, second = [await wire.peer() for _ in range(2)]
        assert await second.closed() == b""
        assert (await first.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        first.leave()
        await wire.until(lambda: not wire.listener.statistics().connections)
        assert (await (await wire.peer()).ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


async def test_a_client_at_its_limit_that_closes_and_connects_again_is_served() -> None:
    async with Wire(connections_per_ip=1) as wire:
        serve_heartbeats(wire)
        for _ in range(50):
            peer = await wire.peer()
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
            peer.leave()
        assert wire.listener.statistics().refused == 0


async def test_max_connections_per_ip_of_one_address() -> None:
    limits = {"connections_per_ip": 1, "connections_per_ip_of": {"127.0.0.1": 2}}
    async with Wire(**limits) as wire:
        serve_heartbeats(wire)
        first, second, third = [await wire.peer() for _ in range(3)]
        assert await third.closed() == b""
        for peer in (first, second):
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0


def test_a_creation_rate_lets_ten_seconds_worth_come_at_once() -> None:
    rate = CreationRate(2, 100.0)
    for _ in range(20):
        assert rate.delay(100.0) == 0
        rate.take()
    assert rate.delay(100.0) == 0.5
    assert rate.delay(100.25) == 0.25
    assert rate.delay(100.5) == 0
    rate.take()
    rate.limit(4)
    assert rate.delay(100.5) == 0.25
    assert rate.delay(1000.0) == 0


async def test_connections_beyond_the_creation_rate_wait() -> None:
    async with Wire(creation_rate=1) as wire:
        serve_heartbeats(wire)
        peers = [await wire.peer() for _ in range(11)]
        peers[10].send(peers[10].request("heartbeat", 4, **HEARTBEAT))
        assert (await peers[9].ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert wire.listener.statistics().accepted == 10
        wire.listener.limit(ConnectionLimits(creation_rate=1_000_000))
        assert await peers[10].correlation_id() == 1


def test_the_rate_of_an_address_has_room_for_one_connection() -> None:
    rates = AddressRates({"::1": 0.01}.get)
    assert rates.wait("127.0.0.1", 0) == 0
    assert rates.wait("::1", 0) == 0
    assert rates.wait("::1", 0) == 1  # and not a hundred seconds
    assert rates.wait("::1", 100) == 0


async def test_connections_beyond_the_quota_of_their_address_are_closed_after_a_wait() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        wire.quotas.replace(quota_entity([("ip", "127.0.0.1")]), {"connection_creation_rate": 0.2})
        first, second, third = [await wire.peer() for _ in range(3)]
        for peer in (first, second):
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        third.send(third.request("heartbeat", 4, **HEARTBEAT))
        assert await third.closed() == b""
        assert wire.listener.statistics().accepted == 2
        await wire.peer()  # is waiting when the listener is closed


async def test_a_closed_connection_that_is_still_known_keeps_no_received_bytes() -> None:
    """The coordinator knows the connection of a pending member id until the id expires."""
    large = struct.pack(">i", 20_000_000) + bytes(10_000_000)
    async with Wire() as wire:
        wire.groups.answers[JoinGroup] = JoinGroupResponse(member_id="m")
        peer = await wire.peer()
        tracemalloc.start()
        try:
            await peer.ask("join_group", 4, **JOIN)
            peer.send(large)
            await wire.until(lambda: wire.listener.statistics().bytes_in > len(large))
            assert tracemalloc.get_traced_memory()[0] > len(large)
            peer.leave()
            await wire.until(lambda: not wire.listener.statistics().connections)
            assert not wire.groups.submitted[0].connection.is_open
            assert tracemalloc.get_traced_memory()[0] < len(large) / 10
        finally:
            tracemalloc.stop()


async def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    async with Wire(idle_ms=100) as wire:
        serve_heartbeats(wire)
        idle, busy, parked = [await wire.peer() for _ in range(3)]
        parked.send(parked.request("join_group", 0, **JOIN))
        closed = asyncio.ensure_future(idle.closed())
        while not closed.done():
            await busy.ask("heartbeat", 4, **HEARTBEAT)
            await asyncio.sleep(0.01)
        assert wire.listener.statistics().connections == 2
        wire.groups.parked[0].on_response(JoinGroupResponse())
        assert await parked.correlation_id() == 1


# The end


async def test_closing_answers_what_is_in_progress_and_cuts_what_waits_for_others() -> None:
    release = asyncio.Event()

    async def slowly(_services, exchange, _request) -> None:
        await release.wait()
        exchange.respond_encoded(b"\0\0")

    async with Wire() as wire:
        wire.handle("heartbeat", slowly)
        idle, busy, parked = [await wire.peer() for _ in range(3)]
        busy.send(busy.request("heartbeat", 0, **HEARTBEAT) * 2)
        parked.send(parked.request("join_group", 0, **JOIN))
        await wire.until(lambda: len(wire.listener.metrics.requests) == 2)
        closing = asyncio.ensure_future(wire.listener.close(5))
        assert await idle.closed() == await parked.closed() == b""
        assert not closing.done()
        with pytest.raises(OSError):
            await asyncio.open_connection(wire.host, wire.port)
        release.set()
        assert await busy.closed() == b"\0\0\0\x06\0\0\0\1\0\0"  # and not the one behind it
        await closing
        assert wire.listener.statistics().connections == 0


async def test_closing_does_not_wait_beyond_its_deadline() -> None:
    async with Wire() as wire:
        wire.handle("heartbeat", lambda *_: None)
        peer = await wire.peer()
        peer.send(peer.request("heartbeat", 0, **HEARTBEAT))
        await wire.until(lambda: wire.listener.metrics.requests)
        await asyncio.wait_for(wire.listener.close(0.05), 60)
        assert await peer.closed() == b""
        await wire.listener.close(0.05)  # again


async def test_closing_cuts_a_peer_that_does_not_read() -> None:
    async with Wire() as wire:
        wire.handle(
            "heartbeat",
            lambda _services, exchange, _request: exchange.respond_encoded(bytes(30_000_000)),
        )
        with socket.create_connection((wire.host, wire.port)) as slow:
            slow.sendall(Peer(None, None).request("heartbeat", 4, **HEARTBEAT))  # type: ignore[arg-type]
            await wire.until(lambda: wire.listener.metrics.requests)
            await asyncio.wait_for(wire.listener.close(0.05), 60)


async def test_a_port_in_use_is_an_os_error() -> None:
    async with Wire() as wire, Wire() as other:
        await other.listener.close()

        with pytest.raises(OSError):
            await other.listener.bind(listener(wire.port))


def test_malformed_is_one_kind_of_error() -> None:
    assert issubclass(MalformedError, ValueError)
    assert UNMETERED <= READ_AHEAD


async def test_answers_that_bring_each_other_do_not_pile_up() -> None:
    """Connection n waits for the request that is queued behind connection n-1's wait."""
    async with Wire() as wire:
        waiting: list[JoinGroup] = []

        def park_or_answer_the_next(request: JoinGroup) -> JoinGroupResponse:
            if waiting and request.group == "next":
                waiting.pop(0).on_response(JoinGroupResponse())  # type: ignore[operator]
            return JoinGroupResponse()

        peers = [await wire.peer() for _ in range(300)]
        for peer in peers:
            peer.send(peer.request("join_group", 3, **JOIN | {"rebalance_timeout_ms": 1}))
        await wire.until(lambda: len(wire.groups.parked) == len(peers))
        waiting += wire.groups.parked
        wire.groups.answers[JoinGroup] = park_or_answer_the_next
        for peer in peers:
            peer.send(
                peer.request(
                    "join_group", 3, **JOIN | {"group_id": "next", "rebalance_timeout_ms": 1}
                )
            )
        await asyncio.sleep(0.05)
        waiting.pop(0).on_response(JoinGroupResponse())  # type: ignore[operator]
        for peer in peers:
            assert [await peer.correlation_id() for _ in range(2)] == [1, 2]
        assert wire.listener.statistics().failed == 0


# What was sent before the end


async def test_all_that_was_sent_before_the_end_is_worked_on() -> None:
    async with Wire() as wire:
        serve_heartbeats(wire)
        peer = await wire.peer()
        peer.send(b"".join(peer.request("heartbeat", 4, **HEARTBEAT) for _ in range(300)))
        peer.writer.write_eof()
        assert [await peer.correlation_id() for _ in range(300)] == list(range(1, 301))
        assert await peer.closed() == b""


async def test_requests_behind_one_in_progress_are_answered_after_the_end_of_input() -> None:
    async with Wire() as wire:
        wire.handle("heartbeat", slowly)
        peer = await wire.peer()
        peer.send(b"".join(peer.request("heartbeat", 0, **HEARTBEAT) for _ in range(3)))
        peer.writer.write_eof()
        assert [await peer.correlation_id() for _ in range(3)] == [1, 2, 3]
        assert await peer.closed() == b""
