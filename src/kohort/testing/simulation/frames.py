"""Kafka's messages in the bytes of a simulated connection."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.client.net import wire
from kohort.protocol.apis import ALL_APIS
from kohort.protocol.messages import decode_request, read_header

_SIZE_BYTES = 4


@dataclass(slots=True)
class Message:
    """A request, or a response with its request."""

    host: str
    """The client's machine."""
    api: str
    """Kafka's name of the API."""
    api_key: int
    version: int
    correlation_id: int
    frame: bytes
    """With its size."""
    body_at: int = 0
    request: "Message | None" = None
    """Of a response: its request."""
    is_applied: bool = field(default=False)
    """Of a request: whether it has arrived at the server."""

    @property
    def is_response(self) -> bool:
        return self.request is not None

    def decode(self) -> Any:
        """kio's request or response."""
        if self.request is None:
            return decode_request(self.api_key, self.version, self.frame, self.body_at)
        encoding = wire(ALL_APIS[self.api_key].name, self.version)
        frame = self.frame[_SIZE_BYTES:]
        return encoding.read(frame, encoding.body_offset(frame))


class MessageReader:
    """Splits what one end of a connection sends into messages."""

    def __init__(
        self, host: str, *, is_response: bool, requests: "MessageReader | None" = None
    ) -> None:
        """`requests` reads the requests of these responses."""
        self._host = host
        self._is_response = is_response
        self._requests = requests
        self._bytes = b""
        self.unanswered: dict[int, Message] = {}
        """Requests by their correlation ids."""

    def feed(self, data: bytes) -> Sequence[Message]:
        """The messages that end in `data`."""
        messages = []
        unread = self._bytes + data if self._bytes else data
        while len(unread) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(unread[:_SIZE_BYTES], "big")
            if len(unread) < end:
                break
            message = self._message(unread[:end])
            if message is not None:
                messages.append(message)
            unread = unread[end:]
        self._bytes = unread
        return messages

    def _message(self, frame: bytes) -> Message | None:
        if not self._is_response:
            key, version, number, _, body_at = read_header(frame)
            request = Message(
                self._host, ALL_APIS[key].kafka_name, key, version, number, frame, body_at
            )
            self.unanswered[number] = request
            return request
        number = int.from_bytes(frame[_SIZE_BYTES : 2 * _SIZE_BYTES], "big")
        assert self._requests is not None
        found = self._requests.unanswered.pop(number, None)
        if found is None:
            return None
        key, version = found.api_key, found.version
        return Message(self._host, found.api, key, version, number, frame, request=found)
