"""The control API over HTTP: a thread for each connection, which calls the verbs.

It does not run on an event loop of a broker, because the time of that loop is in the test's hand.
Who can connect can do everything, so it listens on the loopback address, and a web page that the
user visits is refused by its `Origin`.
"""

import json
import logging
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kohort.errors import KafkaError, KohortError
from kohort.server.addresses import Address
from kohort.testing.control.brokers import Brokers, NoBrokerError
from kohort.testing.control.openapi import document
from kohort.testing.control.routes import ROUTES
from kohort.testing.control.values import InvalidValueError, encode
from kohort.util.text import did_you_mean

logger = logging.getLogger("kohort.control")

MAX_BODY: Final = 64 * 1024 * 1024
"""Most bytes of a request's JSON."""
OPENAPI: Final = "/openapi.json"


class HttpError(KohortError):
    """A request that no verb has got."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ControlApi(ThreadingTCPServer):
    """Serves the verbs of `brokers` from its creation to `close`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, brokers: Brokers, address: Address) -> None:
        """Listen. Raises OSError."""
        self.brokers = brokers
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__(address, _Handler)
        self.address = Address(address.host, self.server_address[1])
        self._thread = Thread(target=self.serve_forever, name="kohort-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Requests in progress get no response."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ControlApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for the head and the body

    def _serve(self) -> None:
        try:
            status, value = HTTPStatus.OK, encode(self._result())
        except Exception as error:  # any exception ends this response only
            status, value = _failure(error)
        self._send(status, value)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815  # names of http.server

    def _result(self) -> Any:
        body = self._body()
        if self.headers["Origin"] is not None:
            raise HttpError(HTTPStatus.FORBIDDEN, "web pages cannot control brokers")
        path = urlsplit(self.path).path
        if path in ("/", OPENAPI):
            return document()
        parts = [unquote(part) for part in path.split("/")]
        found = [(each, given) for each in ROUTES if (given := each.match(parts)) is not None]
        if not found:
            raise _no_such_path(path)
        for route, given in found:
            if route.method == self.command:
                return route.call(self.server.brokers, given, _parsed(body))
        methods = " and ".join(route.method for route, _ in found)
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} has {methods}, not {self.command}")

    def _body(self) -> bytes:
        text = self.headers["Content-Length"] or "0"
        if self.headers["Transfer-Encoding"] is not None or not text.isdecimal():
            self.close_connection = True
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length")
        if int(text) > MAX_BODY:
            self.close_connection = True
            raise HttpError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a body has at most {MAX_BODY} bytes: produce the records in several requests",
            )
        return self.rfile.read(int(text))

    def _send(self, status: HTTPStatus, value: Any) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond to a request that is not HTTP, in JSON as all errors."""
        self.close_connection = True
        self._send(HTTPStatus(code), _error(explain or message or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are logged at the level debug."""
        logger.debug(format, *args)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body) if body.strip() else {}
    except ValueError as error:
        raise InvalidValueError(f"the body is not JSON: {error}") from None


def _failure(error: Exception) -> tuple[HTTPStatus, dict[str, Any]]:
    match error:
        case HttpError():
            return error.status, _error(str(error))
        case NoBrokerError():
            return HTTPStatus.NOT_FOUND, _error(str(error))
        case KafkaError():
            return HTTPStatus.CONFLICT, {
                "error": error.message or str(error),
                "kind": "kafka",
                "code": error.code.name.upper(),
            }
        case KohortError():
            return HTTPStatus.BAD_REQUEST, _error(str(error))
        case AssertionError():
            return HTTPStatus.CONFLICT, {"error": str(error), "kind": "not reached", "code": None}
    logger.error("a request failed", exc_info=error)
    return HTTPStatus.INTERNAL_SERVER_ERROR, _error(f"{type(error).__name__}: {error}")


def _error(text: str) -> dict[str, Any]:
    return {"error": text, "kind": "refused", "code": None}


def _no_such_path(path: str) -> HttpError:
    paths = {route.path for route in ROUTES}
    hint = did_you_mean(path, paths)
    return HttpError(
        HTTPStatus.NOT_FOUND, f"there is no path {path}{hint}; {OPENAPI} lists all paths"
    )
