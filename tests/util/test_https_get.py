"""Documents from a web server in the process, and from files."""

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.util.https_get import MAX_BYTES, StatusError, fetch

LIMIT_S = 10.0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/slow-head":
            self._write_slowly(b"HTTP/1.1 200 OK\r\nX: ")
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/document")
            self.end_headers()
            self.wfile.write(b"it is elsewhere" * 100)
        else:
            self.send_response(200)
            self.end_headers()
            if self.path == "/slow-body":
                self._write_slowly(b"")
            self.wfile.write(bytes(MAX_BYTES + 1) if self.path == "/large" else b"{}")

    def _write_slowly(self, begin: bytes) -> None:
        """Until the client has gone."""
        try:
            self.wfile.write(begin)
            while True:
                self.wfile.write(b"x")
                time.sleep(0.02)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    """The address of a web server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_document_by_http_and_from_a_file(web: str, tmp_path: Path) -> None:
    assert fetch(f"{web}/document", LIMIT_S) == b"{}"
    (tmp_path / "a file").write_text("[]")
    assert fetch((tmp_path / "a file").as_uri(), LIMIT_S) == b"[]"


def test_a_redirect_and_a_large_document_are_refused(web: str) -> None:
    with pytest.raises(StatusError, match="302") as raised:
        fetch(f"{web}/moved", LIMIT_S)
    assert (raised.value.status, len(raised.value.text)) == (302, 500)
    with pytest.raises(ValueError, match="more than"):
        fetch(f"{web}/large", LIMIT_S)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_response_that_comes_byte_by_byte_is_given_up(web: str, part: str) -> None:
    with pytest.raises(TimeoutError, match=r"takes longer than 0\.2 s"):
        fetch(f"{web}/slow-{part}", 0.2)


def test_no_proxy_gets_what_is_for_this_machine(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert fetch(f"{web}/document", LIMIT_S) == b"{}"
