"""The HTTP port: what is answered, and that nothing sent to it does harm."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.server.monitoring.http_port import (
    MAX_CONNECTIONS,
    HttpPort,
    HttpResponse,
    json_response,
)


def fails(_: str) -> HttpResponse:
    raise RuntimeError("oh")


ROUTES = {
    "/health": lambda _: json_response({"status": "ok"}),
    "/groups/": lambda rest: json_response({"asked": rest}),
    "/groups/NAME/explain": lambda name: json_response({"explained": name}),
    "/broken": fails,
    "/text": lambda _: HttpResponse(HTTPStatus.OK, b"plain", "text/plain"),
}


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    port = HttpPort(ROUTES)
    yield await port.start("127.0.0.1", 0)
    await port.close()
    await port.close()


async def send(address: tuple[str, int], data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def get(address: tuple[str, int], path: str) -> tuple[int, object]:
    answer = await send(address, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/health", 200, {"status": "ok"}),
        ("/groups/a%2Fexplain", 200, {"asked": "a/explain"}),
        ("/groups/a/explain", 200, {"explained": "a"}),
        ("/groups/a%2Fb/explain", 200, {"explained": "a/b"}),
        ("/groups/explain", 200, {"asked": "explain"}),
        ("/health?verbose=1", 200, {"status": "ok"}),
        ("/groups/a%2Fb%20c", 200, {"asked": "a/b c"}),
        ("/groups/a/b", 200, {"asked": "a/b"}),
        ("/broken", 500, {"error": "RuntimeError: oh"}),
    ],
)
async def test_a_path_is_answered(
    address: tuple[str, int], path: str, status: int, body: object
) -> None:
    assert await get(address, path) == (status, body)


@pytest.mark.parametrize("path", ["/", "/nothing", "/health/", "/groups/", "/groups"])
async def test_an_unknown_path_is_404(address: tuple[str, int], path: str) -> None:
    assert (await get(address, path))[0] == 404


async def test_an_unknown_path_tells_what_there_is(address: tuple[str, int]) -> None:
    (_, told), (_, stem) = await get(address, "/grups/orders"), await get(address, "/groups/")
    assert isinstance(told, dict)
    assert isinstance(stem, dict)
    assert told["error"].endswith("; did you mean /groups/?")
    assert "there are /health, /groups/NAME, /groups/NAME/explain, /broken" in stem["error"]


async def test_head_has_no_body_and_other_methods_are_refused(address: tuple[str, int]) -> None:
    assert (await send(address, b"HEAD /text HTTP/1.1\r\n\r\n")).endswith(
        b"Connection: close\r\n\r\n"
    )
    assert (await send(address, b"POST /text HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
    assert (await send(address, b"what\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await send(address, b"GET x HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("data", [b"", b"GET /health HTTP/1.1\r\n", b"x" * 100_000])
async def test_bytes_that_are_no_request_end_their_connection_alone(
    address: tuple[str, int], data: bytes
) -> None:
    try:
        assert await send(address, data) == b""
    except OSError:
        pass
    assert (await get(address, "/health"))[0] == 200


@pytest.mark.parametrize(
    "hello",
    [
        b"\x00\x00\x00\x18\x00\x12\x00\x03\x00\x00\x00\x01",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["kafka", "tls"],
)
async def test_a_client_of_another_protocol_gets_bad_request(
    address: tuple[str, int], hello: bytes
) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(hello)
    async with asyncio.timeout(60):
        answer = await reader.readline()
    writer.close()
    assert answer == b"HTTP/1.1 400 Bad Request\r\n"


async def test_silent_clients_are_bounded_and_keep_no_probe_out(address: tuple[str, int]) -> None:
    held = [await asyncio.open_connection(*address) for _ in range(2 * MAX_CONNECTIONS)]
    for _ in range(3):
        assert (await get(address, "/health"))[0] == HTTPStatus.OK
    oldest, newest = held[0][0], held[-1][0]
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(oldest.read(), 60) == b"", "it is closed"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(newest.read(), 0.05)
    for _, writer in held:
        writer.close()


async def test_a_response_that_is_not_read_is_given_up() -> None:
    asked = asyncio.Event()
    large = bytes(16 * 1024 * 1024)

    def respond(_: str) -> HttpResponse:
        asked.set()
        return HttpResponse(HTTPStatus.OK, large)

    port = HttpPort({"/": respond}, timeout_s=0.1)
    address = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await asked.wait()
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 the server has given up
            await asyncio.sleep(0.001)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while some := await reader.read(1024 * 1024):
                received += len(some)
        assert received < len(large)
    finally:
        writer.close()
        await port.close()


async def test_a_request_that_comes_byte_by_byte_is_given_up() -> None:
    port = HttpPort(ROUTES, timeout_s=0.1)
    address = await port.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    with contextlib.suppress(OSError):
        for _ in range(2_000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)
            if reader.at_eof():
                break
    assert reader.at_eof() or reader.exception() is not None
    writer.close()
    await port.close()


@pytest.mark.parametrize(
    "more",
    [
        b"GET /groups/smuggled HTTP/1.1\r\n\r\n",
        b"0\r\n\r\nGET /groups/smuggled HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_connection_has_one_response(address: tuple[str, int], more: bytes) -> None:
    head = b"GET /health HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await send(address, head + more)
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b'{"status": "ok"}\n')


async def test_no_request_writes_headers(address: tuple[str, int]) -> None:
    for path in (b"/groups/a%0d%0aX-Evil:%201%0d%0a%0d%0a<b>", b"/%0d%0aX-Evil:%201"):
        answer = await send(address, b"GET %b HTTP/1.1\r\n\r\n" % path)
        assert b"\nX-Evil" not in answer
        assert b"Content-Type: application/json\r\n" in answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://any.test/health", 200),
        (b"/health#x", 200),
        (b"//any.test/health", 404),
        (b"/he\talth", 400),
        (b"/health\x00", 400),
        (b"health", 400),
        (b"*", 400),
        (b"/./health", 404),
        (b"/%68ealth", 404),
        (b"/HEALTH", 404),
    ],
)
async def test_a_path_is_what_a_proxy_before_it_takes_it_for(
    address: tuple[str, int], target: bytes, status: int
) -> None:
    answer = await send(address, b"GET %b HTTP/1.1\r\n\r\n" % target)
    assert int(answer.split(b" ")[1]) == status


@given(st.binary(max_size=60))
def test_any_request_has_an_answer(request: bytes) -> None:
    assert asyncio.run(HttpPort(ROUTES).respond(request + b"\r\n\r\n")).status in HTTPStatus


async def test_without_the_token_only_public_routes_respond() -> None:
    public = {"/health": lambda _: json_response({"status": "public"})}
    port = HttpPort(ROUTES, public=public, token="sesame")
    address = await port.start("127.0.0.1", 0)
    try:
        assert await get(address, "/health") == (200, {"status": "public"})
        assert await get(address, "/groups/g") == (401, {"error": "a token is needed"})
        assert await get(address, "/nowhere") == (401, {"error": "a token is needed"})
        for header, status in (
            ("Authorization: Bearer sesame", 200),
            ("authorization:bearer  sesame", 200),
            ("Authorization: Bearer sesam", 401),
            ("Authorization: Bearer", 401),
            ("Authorization: Basic sesame", 401),
            ("X: Authorization: Bearer sesame", 401),
            ("X: y\nAuthorization: Bearer sesame", 401),
            ("Authorization:\r\n Bearer sesame", 401),
            ("Authorization: Bearer no\r\nAuthorization: Bearer sesame", 401),
            ("X: y\r\n\r\nAuthorization: Bearer sesame", 401),
        ):
            request = f"GET /groups/g HTTP/1.1\r\n{header}\r\n\r\n".encode()
            answer = await send(address, request)
            assert int(answer.split(b" ")[1]) == status, header
            assert (b"WWW-Authenticate: Bearer" in answer) is (status == 401)
    finally:
        await port.close()
