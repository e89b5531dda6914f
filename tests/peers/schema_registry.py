"""A schema registry for tests: what serializers use of Confluent's documented API, in a thread.

`SchemaRegistryStandIn` keeps schemas in memory. Of compatibility it knows one rule: a field that is
added to an Avro record has a default.
"""

import base64
import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class RefusedError(Exception):
    """A response with an error code of the registry."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SchemaRegistryStandIn:
    """A context manager; `requests` has the methods and paths of what it was asked."""

    def __init__(
        self,
        basic_auth: tuple[str, str] | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """`certificate` and its key are for TLS."""
        self.requests: list[tuple[str, str]] = []
        self.user = None if basic_auth is None else ":".join(basic_auth).encode()
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        scheme = "http"
        if certificate is not None:
            context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def response(self, method: str, path: str, body: Any) -> Any:
        """Raises RefusedError."""
        with self._lock:
            self.requests.append((method, path))
            if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
                return self._schema(int(found[1]))
            if found := re.fullmatch(r"/subjects/([^/]+)/versions", path):
                return self._register(found[1], body)
            if found := re.fullmatch(r"/subjects/([^/]+)/versions/latest", path):
                return self._registered(found[1], self._versions(found[1])[-1])
            if found := re.fullmatch(r"/subjects/([^/]+)", path):
                return self._look_up(found[1], body)
            if re.fullmatch(r"/config/([^/]+)", path):
                return body
            raise RefusedError(404, "HTTP 404 Not Found")

    def _schema(self, number: int) -> dict[str, Any]:
        if not 0 < number <= len(self._schemas):
            raise RefusedError(40403, "Schema not found")
        return self._schemas[number - 1]

    def _versions(self, subject: str) -> list[int]:
        if subject not in self._subjects:
            raise RefusedError(40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _registered(self, subject: str, number: int) -> dict[str, Any]:
        version = self._subjects[subject].index(number) + 1
        return {"subject": subject, "id": number, "version": version, **self._schema(number)}

    def _register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        schema = {name: body[name] for name in ("schema", "schemaType") if body.get(name)}
        versions = self._subjects.setdefault(subject, [])
        if versions and not _is_compatible(schema, self._schema(versions[-1])):
            raise RefusedError(
                409, "Schema being registered is incompatible with an earlier schema"
            )
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        if number not in versions:
            versions.append(number)
        return self._registered(subject, number)

    def _look_up(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        for number in self._versions(subject):
            if self._schema(number)["schema"] == body["schema"]:
                return self._registered(subject, number)
        raise RefusedError(40403, "Schema not found")


def _is_compatible(schema: dict[str, Any], earlier: dict[str, Any]) -> bool:
    if schema.get("schemaType", "AVRO") != "AVRO":
        return True
    new, old = (json.loads(each["schema"]) for each in (schema, earlier))
    known = {field["name"] for field in old["fields"]}
    return all("default" in field or field["name"] in known for field in new["fields"])


class _Handler(BaseHTTPRequestHandler):
    registry: SchemaRegistryStandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._respond(None)

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_PUT(self) -> None:
        self.do_POST()

    def _respond(self, body: Any) -> None:
        status = 200
        try:
            self._validate_user()
            content = self.registry.response(self.command, self.path.partition("?")[0], body)
        except RefusedError as error:
            status = int(str(error.code)[:3])
            content = {"error_code": error.code, "message": str(error)}
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _validate_user(self) -> None:
        user = self.registry.user
        if user is None:
            return
        if self.headers["Authorization"] != f"Basic {base64.b64encode(user).decode()}":
            raise RefusedError(401, "Unauthorized")

    def log_message(self, *_: object) -> None:
        """Nothing: what failed is told by the tests."""
