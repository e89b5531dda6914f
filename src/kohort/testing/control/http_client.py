"""A client of the control API."""

import json
from http import HTTPStatus
from http.client import HTTPConnection
from threading import local
from typing import Any, Final
from urllib.parse import quote

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.testing.control.routes import Route
from kohort.testing.control.values import decode, encode

TIMEOUT_S: Final = 90.0
"""Longest wait for a response: a verb may take a minute."""


class ControlClient:
    """Calls the routes of one control API. Each thread has a connection of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._of_thread = local()

    def call(self, route: Route, arguments: dict[str, Any]) -> Any:
        """The result of a route. Raises what its verb raises, KohortError."""
        in_path = {name: quote(arguments[name], safe="") for name in route.in_path}
        body = {name: encode(arguments[name]) for name in route.in_body if name in arguments}
        status, value = self._request(
            route.method, route.path.format_map(in_path), json.dumps(body).encode()
        )
        if status is not HTTPStatus.OK:
            raise _error(value)
        return decode(route.result, value, "the response")

    def _request(self, method: str, path: str, body: bytes) -> tuple[HTTPStatus, Any]:
        connection = self._connection()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return HTTPStatus(response.status), json.loads(response.read())
        except (OSError, ValueError) as error:
            connection.close()
            raise KohortError(
                f"no response of the server process at {self._host}:{self._port}: {error!r}"
            ) from error

    def _connection(self) -> HTTPConnection:
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        connection: HTTPConnection = self._of_thread.connection
        return connection


def _error(value: dict[str, Any]) -> Exception:
    text = value["error"]
    if value["kind"] == "kafka":
        return KafkaError(ErrorCode[value["code"].lower()], text)
    return AssertionError(text) if value["kind"] == "not reached" else KohortError(text)
