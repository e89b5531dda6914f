"""Tokens by client credentials, from an endpoint in the process."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from kohort.client.errors import AuthenticationError
from kohort.client.security.client_credentials import ClientCredentials
from kohort.errors import ConfigError, KohortError


class Endpoint(HTTPServer):
    """Responds with `status` and `body`; `asked` has authorization and form of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.status = 200
        self.body: Any = {"access_token": "one", "expires_in": 3600}
        self.raw = b""
        """What is sent instead, if anything."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        scheme, _, basic = self.headers["Authorization"].partition(" ")
        assert scheme == "Basic"
        self.server.asked.append((base64.b64decode(basic).decode(), parse_qs(form)))
        if self.server.raw:
            self.wfile.write(self.server.raw)
            return
        body = json.dumps(self.server.body).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", self.server.url)  # of a redirect
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


async def test_a_token_is_kept_for_most_of_its_lifetime(endpoint: Endpoint) -> None:
    source = ClientCredentials(endpoint.url, "ann", "a b", scope="all")
    assert [await source(), await source()] == ["one", "one"]
    form = {"grant_type": ["client_credentials"], "scope": ["all"]}
    assert endpoint.asked == [("ann:a b", form)]


async def test_a_token_without_a_lifetime_is_not_kept(endpoint: Endpoint) -> None:
    endpoint.body = {"access_token": "one"}
    source = ClientCredentials(endpoint.url, "ann", "a b", encode=True)
    assert [await source(), await source()] == ["one", "one"]
    assert endpoint.asked == [("ann:a+b", {"grant_type": ["client_credentials"]})] * 2


async def test_an_endpoint_that_refuses(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.body = 401, {"error": "invalid_client"}
    with pytest.raises(AuthenticationError, match=r"/token: .*401.*invalid_client"):
        await ClientCredentials(endpoint.url, "ann", "x")()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (503, {}, "503"),
        (302, {}, "302"),
        (200, {}, "without access_token"),
        (200, [], "without access_token"),
        (200, {"access_token": "one", "expires_in": "soon"}, "expires_in that is no number"),
    ],
)
async def test_an_endpoint_in_trouble(
    endpoint: Endpoint, status: int, body: Any, told: str
) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(KohortError, match=told) as raised:
        await ClientCredentials(endpoint.url, "ann", "x")()
    assert not isinstance(raised.value, AuthenticationError)


@pytest.mark.parametrize("raw", [b"HTTP/1.1 never\r\n\r\n", b"\xff\r\n\r\n"])
async def test_an_endpoint_that_speaks_no_http(endpoint: Endpoint, raw: bytes) -> None:
    endpoint.raw = raw
    with pytest.raises(KohortError, match="token endpoint http://127"):
        await ClientCredentials(endpoint.url, "ann", "x")()


@pytest.mark.parametrize("url", ["file:///t", "https:///t", "http://[::1/t", "issuer.test"])
def test_a_token_endpoint_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"token endpoint .* is not a URL such as https"):
        ClientCredentials(url, "ann", "x")


@pytest.mark.parametrize("host", ["issuer.test", "10.0.0.1", "localhost.test", "[2001:db8::1]"])
def test_a_secret_does_not_cross_the_network_unencrypted(host: str) -> None:
    ClientCredentials(f"https://{host}/token", "ann", "s3cret")
    with pytest.raises(ConfigError, match="unencrypted: give its https URL") as raised:
        ClientCredentials(f"http://{host}/token", "ann", "s3cret")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.2", "[::1]:8080"])
def test_http_is_for_this_machine(host: str) -> None:
    ClientCredentials(f"http://{host}/token", "ann", "s3cret")
