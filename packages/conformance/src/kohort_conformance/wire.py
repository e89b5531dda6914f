"""A raw connection to a broker: requests out, responses back in order, nothing hidden.

Unlike a client library it retries nothing, negotiates nothing and lets a scenario send what no
client would: any version, requests behind one that is parked, and bytes that are no request at all.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from kohort_conformance.entities import UndecodableResponseError, decode_response, encode_request
from kohort_conformance.plain import Plain

RESPONSE_SECONDS = 20.0
"""How long a response is awaited before the transcript says that there is none."""
MAX_FRAME = 64 << 20


def password(user: str) -> str:
    """The password of a user of the scenarios."""
    return f"{user}-secret"


class HungUpError(Exception):
    """The server closed the connection instead of responding."""


class SilentError(Exception):
    """No response came within the time that the scenario gives."""


class SentRequest:
    """A request that was sent; its response comes after those to earlier requests."""

    def __init__(self, api: str, version: int, correlation_id: int) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self._frame: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def settle(self, frame: bytes) -> None:
        if not self._frame.done():
            self._frame.set_result(frame)

    def hang_up(self) -> None:
        if not self._frame.done():
            self._frame.set_exception(HungUpError())
            self._frame.exception()  # read it: a call that nobody awaits is no error

    @property
    def responded(self) -> bool:
        return self._frame.done()

    async def frame(self, seconds: float = RESPONSE_SECONDS) -> bytes:
        """The whole response, header included.

        Raises HungUpError or SilentError; can be awaited again.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(self._frame), seconds)
        except TimeoutError:
            raise SilentError(f"no answer within {seconds:g} s") from None

    async def response(self, seconds: float = RESPONSE_SECONDS) -> dict[str, Plain]:
        """The decoded body.

        Raises UndecodableResponseError too, as when the correlation id is not the request's.
        """
        frame = await self.frame(seconds)
        if (got := int.from_bytes(frame[:4], "big", signed=True)) != self.correlation_id:
            raise UndecodableResponseError(f"correlation id {got} instead of {self.correlation_id}")
        return decode_response(self.api, self.version, frame)


class RawConnection:
    """One TCP connection.

    `await RawConnection.open(...)`, then `send`; `close` drops what is still parked.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[SentRequest] = deque()
        self._next_id = 1
        self._closed = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, host: str, port: int, user: str | None = None) -> Self:
        """A new connection; of a user, it is authenticated.

        Raises HungUpError, SilentError or UndecodableResponseError if the server has no SASL.
        """
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        connection = cls(reader, writer)
        if user is not None:
            await connection._authenticate(user)
        return connection

    async def _authenticate(self, user: str) -> None:
        """Log in by SASL PLAIN."""
        token = f"\0{user}\0{password(user)}".encode()
        for api, values in (
            ("SaslHandshake", {"mechanism": "PLAIN"}),
            ("SaslAuthenticate", {"auth_bytes": token}),
        ):
            answer = await self.send(api, 1, values, user).response()
            if answer["error_code"] != "NONE (0)":
                raise HungUpError(f"{api}: {answer['error_code']}")

    def send(
        self, api: str, version: int, values: Mapping[str, Any], client_id: str | None
    ) -> SentRequest:
        """Send a request of any version; does not wait for anything."""
        call = self.expect(api, version)
        self.send_frame(encode_request(api, version, values, call.correlation_id, client_id))
        return call

    def expect(self, api: str, version: int) -> SentRequest:
        """The call of a request sent as raw bytes; the response is read as this version's."""
        call = SentRequest(api, version, self._next_id)
        self._next_id += 1
        self._waiting.append(call)
        if self._closed.is_set():
            call.hang_up()
        return call

    def forget(self, call: SentRequest) -> None:
        """This request has no response (acks=0): the next response is the next request's."""
        self._waiting.remove(call)

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def closed_by_server(self, seconds: float) -> bool:
        """Whether the server closes within that time."""
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
                if not 0 <= size <= MAX_FRAME:  # a token of SASL may be empty
                    break
                frame = await self._reader.readexactly(size)
                if self._waiting:
                    self._waiting.popleft().settle(frame)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._closed.set()
            self._writer.close()
            for call in self._waiting:
                call.hang_up()
