"""Fetches a small document by https, with bounds of size and time, and without redirects.

A redirect would take credentials, or the trust in a configured address, elsewhere. A proxy that the
environment names is used for https alone: http is for this machine.
"""

import io
import socket
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Final, cast

MAX_BYTES: Final = 1024 * 1024
_MAX_TOLD: Final = 500
"""Bytes of the body of an error that are read."""


class StatusError(OSError):
    """The server responded with a status other than 2xx."""

    def __init__(self, refused: urllib.error.HTTPError, text: str) -> None:
        super().__init__(str(refused))
        self.status = refused.code
        self.text = text
        """The beginning of the body."""


def fetch(request: str | urllib.request.Request, timeout_s: float) -> bytes:
    """The document at an https, http or file URL, blocking.

    `timeout_s` bounds the time to connect to each address of the host, and the time from the start
    to the end of the response, however slowly its bytes come. Raises OSError (StatusError,
    TimeoutError), ValueError for a document of more than MAX_BYTES, and HTTPException.
    """
    try:
        with _opener().open(request, timeout=timeout_s) as response:
            content: bytes = response.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as refused:
        with refused:
            raise StatusError(refused, refused.read(_MAX_TOLD).decode(errors="replace")) from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return content


class _Reader(io.RawIOBase):
    """Reads from a socket until a deadline; the timeout of a socket is that of each wait."""

    def __init__(self, sock: socket.socket, timeout_s: float, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._timeout_s = timeout_s
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining_s = self._deadline - time.monotonic()
        try:
            if remaining_s <= 0:
                raise TimeoutError
            self._sock.settimeout(remaining_s)
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(f"it takes longer than {self._timeout_s:g} s") from None

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """A socket whose response ends by a deadline."""

    def __init__(self, sock: socket.socket, timeout_s: float, deadline: float) -> None:
        self._sock = sock
        self._limits = (timeout_s, deadline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, *self._limits))


class _Connection(HTTPConnection):
    timeout: float

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline = time.monotonic() + self.timeout

    def connect(self) -> None:
        super().connect()
        self.sock = cast("socket.socket", _Socket(self.sock, self.timeout, self._deadline))


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, request)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    proxies = {
        scheme: proxy for scheme, proxy in urllib.request.getproxies().items() if scheme == "https"
    }
    return urllib.request.build_opener(
        _NoRedirects, _Handler, _SecureHandler, urllib.request.ProxyHandler(proxies)
    )
