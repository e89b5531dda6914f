"""SASL on a connection: the order of its requests, sizes, failures, sessions."""

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kohort.coordinator.requests import Heartbeat
from kohort.coordinator.responses import HeartbeatResponse
from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import response
from kohort.quotas import REQUEST_PERCENTAGE, quota_entity
from kohort.security.plain import PlainServer
from kohort.security.sasl import Authenticated, Challenge, Failed, Outcome
from kohort.server.net import FailedLogins, Sasl
from kohort.server.net.request_memory import RequestMemory
from server.handlers.bench import START, HandClock
from server.net.bench import Peer, Wire

NONE = ErrorCode.none
ILLEGAL = ErrorCode.illegal_sasl_state
FAILED = ErrorCode.sasl_authentication_failed
ALICE = b"\0alice\0secret"
FAILED_TEXT = "Authentication failed: Invalid username or password"
HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


class TwoSteps:
    """A mechanism that expects "1", says "2", expects "3", says "4"."""

    def __init__(self, expires_ms: int | None = None) -> None:
        self.expires_ms = expires_ms
        self.begun = False

    def step(self, message: bytes) -> Outcome:
        if message == b"1" and not self.begun:
            self.begun = True
            return Challenge(b"2")
        if message == b"3" and self.begun:
            return Authenticated("steps", b"4", self.expires_ms)
        return Failed("TWO: a wrong step")


def secured(
    clock: HandClock | None = None,
    *,
    failures: int = 100,
    expires_ms: int | None = None,
    **changes: Any,
) -> Sasl:
    clock = clock or HandClock()
    usual: dict[str, Any] = {
        "mechanisms": {
            "PLAIN": lambda: PlainServer({"alice": "secret", "bob": "secret"}),
            "TWO": lambda: TwoSteps(expires_ms),
        },
        "clock": clock,
        "failed_logins": FailedLogins(failures, lambda: clock.ms / 1000),
        "failure_delay_ms": 0,
    }
    return Sasl(**usual | changes)


async def log_in(peer: Peer, message: bytes = ALICE, *, version: int = 2) -> Any:
    chosen = await peer.ask("sasl_handshake", 1, mechanism="PLAIN")
    assert chosen.error_code is NONE
    return await peer.ask("sasl_authenticate", version, auth_bytes=message)


async def versions(peer: Peer, version: int = 3, **changes: Any) -> ErrorCode:
    fields = {"client_software_name": "test", "client_software_version": "1"} | changes
    code: ErrorCode = (await peer.ask("api_versions", version, **fields)).error_code
    return code


def who_asks(wire: Wire) -> list[str]:
    """The principals of ListGroups requests from now on."""
    asked: list[str] = []

    def handle(_: Any, exchange: Any, _request: Any) -> None:
        asked.append(str(exchange.peer.principal))
        exchange.respond(response(exchange.api_key, exchange.version))

    wire.handle("list_groups", handle)
    return asked


@pytest.mark.parametrize("version", range(3))
async def test_requests_are_served_after_a_login_as_those_of_its_user(version: int) -> None:
    async with Wire(sasl=secured()) as wire:
        asked = who_asks(wire)
        peer = await wire.peer()
        assert await versions(peer) is NONE
        answer = await log_in(peer, version=version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (NONE, "", b"")
        await peer.ask("list_groups", 4, states_filter=())
        assert asked == ["User:alice"]
        assert wire.listener.metrics.logins == 1


async def test_the_expected_node_is_compared_after_the_login() -> None:
    """As Apache Kafka 4.4 does."""
    another = {"cluster_id": "another", "node_id": 7}
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        assert await versions(peer, 5, cluster_id="another") is ErrorCode.invalid_request
        assert await versions(peer, 5, **another) is NONE
        assert (await log_in(peer)).error_code is NONE
        assert await versions(peer, 5, **another) is ErrorCode.rebootstrap_required
        assert await versions(peer, 5) is NONE


async def test_request_time_counts_from_the_login_on() -> None:
    """Nobody who has not logged in can make others wait, who are the same principal by then."""
    async with Wire(sasl=secured()) as wire:
        who_asks(wire)
        wire.quotas.replace(quota_entity([("user", None)]), {REQUEST_PERCENTAGE: 1e-9})
        peer = await wire.peer()
        assert await versions(peer) is NONE
        assert wire.listener.metrics.throttled.total() == 0
        assert (await log_in(peer)).error_code is NONE
        assert wire.listener.metrics.throttled.total() == 0
        await peer.ask("list_groups", 4, states_filter=())
        assert wire.listener.metrics.throttled.total() == 1


async def test_the_mechanisms_are_told_with_the_handshake() -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        answer = await peer.ask("sasl_handshake", 0, mechanism="GSSAPI")
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert answer.mechanisms == ("PLAIN", "TWO")
        assert await peer.closed() == b""


async def test_a_mechanism_of_several_messages() -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        assert (await peer.ask("sasl_authenticate", 1, auth_bytes=b"1")).auth_bytes == b"2"
        last = await peer.ask("sasl_authenticate", 1, auth_bytes=b"3")
        assert (last.error_code, last.auth_bytes) == (NONE, b"4")


def token(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


async def test_after_a_handshake_of_version_0_messages_have_no_header() -> None:
    async with Wire(sasl=secured()) as wire:
        asked = who_asks(wire)
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 0, mechanism="TWO")
        peer.send(token(b"1"))
        assert await peer.content() == b"2"
        peer.send(token(b"3") + peer.request("list_groups", 4, states_filter=()))
        assert await peer.content() == b"4"
        assert (await peer.answer("list_groups", 4)).error_code is NONE
        assert asked == ["User:steps"]


async def test_a_wrong_token_without_a_header_closes_the_connection() -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 0, mechanism="PLAIN")
        peer.send(token(b"\0alice\0wrong"))
        assert await peer.closed() == b""
        assert wire.listener.metrics.logins_failed == 1


@pytest.mark.parametrize(
    ("mechanism", "message", "text"),
    [
        ("PLAIN", b"\0alice\0wrong", FAILED_TEXT),
        ("PLAIN", b"\0nobody\0wrong", FAILED_TEXT),
        (
            "TWO",
            b"9",
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism TWO",
        ),
    ],
)
async def test_a_failure_is_told_counted_and_logged_without_the_password(
    mechanism: str, message: bytes, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism=mechanism)
        answer = await peer.ask("sasl_authenticate", 2, auth_bytes=message)
        assert (answer.error_code, answer.error_message) == (FAILED, text)
        assert await peer.closed() == b""
        metrics = wire.listener.metrics
        assert (metrics.logins, metrics.logins_failed) == (0, 1)
        assert "authentication from 127.0.0.1 failed: " in caplog.text
        assert "wrong" not in caplog.text.replace("a wrong", "")


def test_the_repr_of_a_sasl_has_no_password() -> None:
    sasl = secured(mechanisms={"PLAIN": partial(PlainServer, {"alice": "secret"})})
    assert "secret" not in repr(sasl)


async def test_a_failure_is_told_after_the_delay_and_nothing_is_served_meanwhile() -> None:
    async with Wire(sasl=secured(failure_delay_ms=600_000)) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="PLAIN")
        peer.send(peer.request("sasl_authenticate", 2, auth_bytes=b"\0alice\0wrong"))
        peer.send(peer.request("sasl_authenticate", 2, auth_bytes=ALICE))
        await wire.until(lambda: wire.listener.metrics.logins_failed)
        assert await peer.is_silent()
        assert wire.listener.metrics.logins == 0


@pytest.mark.parametrize("api", ["metadata", "sasl_authenticate", "heartbeat", "join_group"])
@pytest.mark.parametrize("after_versions", [False, True])
async def test_before_the_handshake_nothing_else_is_parsed(api: str, after_versions: bool) -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        if after_versions:
            await versions(peer)
        peer.send(peer.frame(api, 1, b"\xff" * 20))
        assert await peer.closed() == b""
        assert not wire.listener.metrics.requests[BY_NAME[api].key]


@pytest.mark.parametrize("content", [b"", b"\0", b"\x7f\xff\0\0\0\0\0\0"])
async def test_bytes_that_are_no_request_close_the_connection_before_the_login(
    content: bytes,
) -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        peer.send(token(content))
        assert await peer.closed() == b""


async def test_versions_may_be_asked_for_once_more_only_after_an_error() -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        peer.send(peer.frame("api_versions", 9, b""))
        assert (await peer.answer("api_versions", 0)).error_code is ErrorCode.unsupported_version
        assert await versions(peer, client_software_name="-") is ErrorCode.invalid_request
        assert await versions(peer) is NONE
        peer.send(peer.request("api_versions", 0))
        assert await peer.closed() == b""


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("sasl_handshake", 1, {"mechanism": "PLAIN"}),
        ("api_versions", 0, {}),
        ("heartbeat", 4, HEARTBEAT),
        ("find_coordinator", 1, {"key": "g", "key_type": 0}),
    ],
)
async def test_a_request_during_authentication_is_refused(
    api: str, version: int, fields: dict[str, Any]
) -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        await peer.ask("sasl_authenticate", 1, auth_bytes=b"1")
        assert (await peer.ask(api, version, **fields)).error_code is ILLEGAL
        assert await peer.closed() == b""
        assert wire.groups.submitted == []


@pytest.mark.parametrize("version", [1, 3])
async def test_a_refused_request_is_not_parsed(version: int) -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        peer.send(peer.frame("find_coordinator", version, b"\xff" * 9))
        answer = await peer.answer("find_coordinator", version)
        assert (answer.error_code, answer.node_id, answer.port) == (ILLEGAL, -1, -1)
        assert answer.error_message == "Unexpected Kafka request during SASL authentication."
        assert await peer.closed() == b""


@pytest.mark.parametrize("version", [9, 0])
async def test_a_request_that_cannot_say_the_error_is_refused_too(version: int) -> None:
    async with Wire(sasl=secured()) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        peer.send(peer.request("metadata", version, topics=()))
        peer.send(peer.frame("api_versions", 99, b""))
        assert (await peer.answer("metadata", version)).topics == ()
        assert await peer.closed() == b""


async def test_after_a_login_sasl_requests_are_refused_and_others_go_on() -> None:
    async with Wire(sasl=secured()) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        await log_in(peer)
        for _ in range(2):
            assert (await peer.ask("sasl_authenticate", 1, auth_bytes=ALICE)).error_code is ILLEGAL
            assert (await peer.ask("sasl_handshake", 1, mechanism="PLAIN")).error_code is ILLEGAL
            assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code is NONE


async def test_without_sasl_its_requests_are_refused_and_others_go_on() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        assert (await peer.ask("sasl_handshake", 1, mechanism="PLAIN")).error_code is ILLEGAL
        assert (await peer.ask("sasl_authenticate", 1, auth_bytes=ALICE)).error_code is ILLEGAL
        assert await versions(peer) is NONE


@pytest.mark.parametrize("size", [5_001, -1])
async def test_frames_are_small_before_a_login(size: int) -> None:
    async with Wire(sasl=secured(receive_bytes=5_000)) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="PLAIN")
        peer.send(struct.pack(">i", size))
        assert await peer.closed() == b""


async def test_frames_are_as_large_as_elsewhere_after_a_login() -> None:
    async with Wire(sasl=secured(receive_bytes=1_000), request_bytes=10_000) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        await log_in(peer)
        fields = HEARTBEAT | {"member_id": "m" * 9_000}
        assert (await peer.ask("heartbeat", 4, **fields)).error_code is NONE
        peer.send(struct.pack(">i", 10_001))
        assert await peer.closed() == b""


async def test_large_frames_before_a_login_wait_for_memory() -> None:
    sasl = secured(memory=RequestMemory(250_000))
    async with Wire(sasl=sasl) as wire:
        peers = [await wire.peer() for _ in range(5)]
        for peer in peers:
            await peer.ask("sasl_handshake", 1, mechanism="PLAIN")
            large = peer.request("sasl_authenticate", 2, auth_bytes=ALICE + bytes(100_000))
            peer.send(large[:-1])
        await wire.until(lambda: sasl.memory.used > 200_000)
        assert (await log_in(await wire.peer())).error_code is NONE
        assert sasl.memory.used < 250_000
        for peer in peers:
            peer.leave()
        await wire.until(lambda: sasl.memory.used == 0)


async def test_a_login_by_a_large_frame_gives_its_memory_back() -> None:
    sasl = secured(mechanisms={"PLAIN": lambda: PlainServer({"a" * 90_000: "secret"})})
    async with Wire(sasl=sasl) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        message = b"\0" + b"a" * 90_000 + b"\0secret"
        assert (await log_in(peer, message)).error_code is NONE
        fields = HEARTBEAT | {"member_id": "m" * 30_000}
        assert (await peer.ask("heartbeat", 4, **fields)).error_code is NONE
        assert (sasl.memory.used, wire.listener.statistics().memory_bytes) == (0, 0)


async def test_a_client_that_does_not_authenticate_in_time_is_disconnected() -> None:
    async with Wire(sasl=secured(timeout_ms=20)) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        assert await peer.closed() == b""
        assert wire.listener.metrics.logins_failed == 1


async def test_logins_that_do_not_end_give_way_to_later_ones() -> None:
    async with Wire(sasl=secured(max_pending=3)) as wire:
        user = await wire.peer()
        assert (await log_in(user)).error_code is NONE
        silent, *others = [await wire.peer() for _ in range(3)]
        for peer in others:
            await peer.ask("sasl_handshake", 1, mechanism="TWO")
        later = await wire.peer()
        assert (await log_in(later)).error_code is NONE
        assert await silent.closed() == b""
        for peer in others:
            assert (await peer.ask("sasl_authenticate", 2, auth_bytes=b"1")).auth_bytes == b"2"
        await user.ask("api_versions", 0)


async def test_a_flood_of_half_logins_keeps_nobody_out() -> None:
    async with Wire(sasl=secured(max_pending=50)) as wire:
        for _ in range(300):
            peer = await wire.peer()
            peer.send(peer.request("sasl_handshake", 1, mechanism="TWO")[:-1])
        assert (await log_in(await wire.peer())).error_code is NONE
        assert wire.listener.statistics().connections <= 51


async def test_an_authenticated_client_may_stay() -> None:
    async with Wire(sasl=secured(timeout_ms=200)) as wire:
        peer = await wire.peer()
        await log_in(peer)
        assert await peer.is_silent(0.3)


async def test_an_address_with_many_failures_has_to_wait() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, failures=3)) as wire:
        for _ in range(3):
            answer = await log_in(await wire.peer(), b"\0alice\0wrong")
            assert answer.error_code is FAILED
        early = await wire.peer()
        early.send(early.request("api_versions", 0))
        assert await early.closed() == b""
        clock.ms += 60_000
        assert (await log_in(await wire.peer())).error_code is NONE


def test_failures_are_counted_by_network_and_minute() -> None:
    now = 0.0
    failures = FailedLogins(2, lambda: now)
    for host in ("10.0.0.1", "10.0.0.1", "1:2:3:4:5:6:7:8", "1:2:3:4:0:0:0:1", "10.0.0.2"):
        failures.count(host)
    hosts = ("10.0.0.1", "1:2:3:4:9:9:9:9", "1:2:3:5:0:0:0:1", "10.0.0.2", "")
    assert [failures.is_blocked(host) for host in hosts] == [True, True, False, False, False]
    now = 60.0
    assert not any(map(failures.is_blocked, hosts))


# Sessions (KIP-368)


async def test_a_session_ends_and_may_be_renewed_before_and_after() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, max_reauth_ms={"PLAIN": 5_000})) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        for wait_ms in (4_999, 5_000, 60_000):
            answer = await log_in(peer)
            assert answer.error_code is NONE
            assert answer.session_lifetime.total_seconds() == 5
            for _ in range(3):  # the last ones are recognised by their bytes
                assert (await peer.ask("heartbeat", 4, **HEARTBEAT)).error_code is NONE
            clock.ms += wait_ms
        peer.send(peer.request("heartbeat", 4, **HEARTBEAT))
        assert await peer.closed() == b""
        assert wire.listener.metrics.sessions_expired == 1
        assert len(wire.groups.submitted) == 9


async def test_a_session_is_not_renewed_twice_within_a_second() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, max_reauth_ms={"PLAIN": 5_000})) as wire:
        peer = await wire.peer()
        await log_in(peer)
        await log_in(peer)
        clock.ms += 999
        assert (await peer.ask("sasl_handshake", 1, mechanism="PLAIN")).error_code is ILLEGAL
        clock.ms += 1
        assert (await log_in(peer)).error_code is NONE


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_frames_are_small_while_a_session_is_renewed(
    version: int, is_pipelined: bool
) -> None:
    """A message of 100 MB takes a mechanism ten seconds."""
    sasl = secured(receive_bytes=1_000, max_reauth_ms={"PLAIN": 5_000})
    async with Wire(sasl=sasl, request_bytes=200_000) as wire:
        peer = await wire.peer()
        large = b"\0alice\0" + b"x" * 150_000
        await log_in(peer)
        handshake = peer.request("sasl_handshake", version, mechanism="PLAIN")
        message = (
            peer.request("sasl_authenticate", 2, auth_bytes=large)
            if version
            else struct.pack(">i", len(large)) + large
        )
        for sent in (handshake + message,) if is_pipelined else (handshake, message):
            peer.send(sent)
            if sent is not message:
                await peer.content()
        assert await peer.closed() == b""
        assert (wire.listener.metrics.logins, wire.listener.metrics.logins_failed) == (1, 0)


async def test_frames_are_large_again_once_a_session_is_renewed() -> None:
    sasl = secured(receive_bytes=1_000, max_reauth_ms={"PLAIN": 5_000})
    async with Wire(sasl=sasl, request_bytes=10_000) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        for _ in range(2):
            assert (await log_in(peer)).error_code is NONE
            fields = HEARTBEAT | {"member_id": "m" * 9_000}
            assert (await peer.ask("heartbeat", 4, **fields)).error_code is NONE


async def test_a_repeated_request_during_authentication_is_refused() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, max_reauth_ms={"PLAIN": 5_000})) as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        await log_in(peer)
        heartbeat = peer.request("heartbeat", 4, **HEARTBEAT)
        for _ in range(2):
            peer.send(heartbeat)
            await peer.content()
        await peer.ask("sasl_handshake", 1, mechanism="PLAIN")
        peer.send(heartbeat)
        assert (await peer.answer("heartbeat", 4)).error_code is ILLEGAL
        assert await peer.closed() == b""


async def test_a_session_keeps_its_user() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, max_reauth_ms={"PLAIN": 5_000})) as wire:
        peer = await wire.peer()
        await log_in(peer)
        answer = await log_in(peer, b"\0bob\0secret")
        assert answer.error_code is FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await peer.closed() == b""


async def test_a_session_keeps_its_mechanism() -> None:
    clock = HandClock()
    async with Wire(sasl=secured(clock, max_reauth_ms={"PLAIN": 5_000})) as wire:
        peer = await wire.peer()
        await log_in(peer)
        assert (await peer.ask("sasl_handshake", 1, mechanism="TWO")).error_code is NONE
        peer.send(peer.request("sasl_authenticate", 1, auth_bytes=b"1"))
        assert await peer.closed() == b""


async def test_a_session_is_not_renewed_by_a_mechanism_that_is_not_served() -> None:
    async with Wire(sasl=secured(max_reauth_ms={"PLAIN": 5_000})) as wire:
        peer = await wire.peer()
        await log_in(peer)
        peer.send(peer.request("sasl_handshake", 1, mechanism="GSSAPI"))
        assert await peer.closed() == b""
        assert wire.listener.metrics.logins_failed == 1


@pytest.mark.parametrize(
    ("expires_in_ms", "longest_ms", "lifetime_ms"),
    [(9_000, 0, 9_000), (9_000, 5_000, 5_000), (3_000, 5_000, 3_000)],
)
async def test_a_session_ends_with_its_credential(
    expires_in_ms: int, longest_ms: int, lifetime_ms: int
) -> None:
    clock = HandClock()
    clock.ahead_ms = 77
    sasl = secured(clock, expires_ms=START + 77 + expires_in_ms, max_reauth_ms={"TWO": longest_ms})
    async with Wire(sasl=sasl) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        await peer.ask("sasl_authenticate", 1, auth_bytes=b"1")
        answer = await peer.ask("sasl_authenticate", 1, auth_bytes=b"3")
        assert answer.session_lifetime.total_seconds() * 1000 == lifetime_ms
        clock.ms += lifetime_ms
        peer.send(peer.request("api_versions", 0))
        assert await peer.closed() == b""


async def test_a_credential_that_has_expired_meanwhile_ends_with_the_first_request() -> None:
    async with Wire(sasl=secured(expires_ms=START - 5)) as wire:
        peer = await wire.peer()
        await peer.ask("sasl_handshake", 1, mechanism="TWO")
        await peer.ask("sasl_authenticate", 1, auth_bytes=b"1")
        answer = await peer.ask("sasl_authenticate", 1, auth_bytes=b"3")
        assert (answer.error_code, answer.session_lifetime.total_seconds()) == (NONE, 0)
        peer.send(peer.request("api_versions", 0))
        assert await peer.closed() == b""


async def test_any_bytes_before_a_login_are_harmless() -> None:
    """Floods of connections that send junk leave nothing behind."""
    async with Wire(sasl=secured()) as wire:
        junk: list[Callable[[Peer], bytes]] = [
            lambda _: bytes(1_000),
            lambda peer: peer.request("sasl_handshake", 1, mechanism="PLAIN") * 3,
            lambda peer: peer.request("sasl_handshake", 0, mechanism="TWO") + bytes(400),
            lambda peer: peer.request("sasl_handshake", 1, mechanism="x" * 30_000),
        ]
        for number in range(40):
            peer = await wire.peer()
            peer.send(junk[number % len(junk)](peer))
            if number % 2:
                peer.leave()
            else:
                await peer.closed()
        await wire.until(lambda: wire.listener.statistics().connections == 0)
        assert wire.listener.metrics.failed == 0
        assert (await log_in(await wire.peer())).error_code is NONE
