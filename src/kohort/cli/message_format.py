r"""Records as text, in kcat's formats: `-f`, `-J`, and delimiters with escapes.

An example is `-f '%t [%p] at %o: key %k: %s\n'`.

| token | meaning | token | meaning |
|---|---|---|---|
| `%s` | value | `%S` | its length, -1 for null |
| `%k` | key | `%K` | its length, -1 for null |
| `%R` | the value's length as 4 bytes, big-endian | `%T` | timestamp in ms |
| `%t` `%p` `%o` | topic, partition, offset | `%h` | headers: name=value,name=value |
| `\n` `\r` `\t` | newline, return, tab | `\xNN` `\NNN` | a byte in hex, octal (`\0NN`) or decimal |

Null is written as no bytes, or as NULL with `-Z`. As in kcat, so are empty keys and values.
Deserialized values are written as text; lengths are those of the bytes.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final, Protocol, Self, TypeAlias

from kohort.client.errors import DeserializationError
from kohort.errors import ConfigError

Header: TypeAlias = tuple[str, bytes | None]


class Message(Protocol):
    """The written parts of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...
    @property
    def raw(self) -> "Message":
        """With key and value as the bytes that are in the log."""
        ...


class JsonText(bytes):
    """A key or value that was deserialized to JSON, with the id of its schema."""

    schema_id: int

    def __new__(cls, text: str, schema_id: int) -> Self:
        text_bytes = super().__new__(cls, text.encode())
        text_bytes.schema_id = schema_id
        return text_bytes


Write: TypeAlias = Callable[[Message], bytes]

NULL: Final = b"NULL"
_TOKEN: Final = re.compile(r"%(.?)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]*)|(0[0-7]*|[1-9][0-9]*)|(.))", re.DOTALL)
_NAMED: Final = {"n": b"\n", "r": b"\r", "t": b"\t"}
_pack_length: Final = Struct(">i").pack


def unescape(text: str) -> bytes:
    r"""The bytes of a delimiter or of a format's literal part; an unknown `\q` is `q`."""
    parts, end = [], 0
    for escape in _ESCAPE.finditer(text):
        parts += [_bytes(text[end : escape.start()]), _escaped(escape)]
        end = escape.end()
    return b"".join((*parts, _bytes(text[end:])))


def _escaped(escape: re.Match[str]) -> bytes:
    hexadecimal, number, character = escape.groups()
    if character is not None:
        return _NAMED.get(character) or _bytes(character)
    value = (
        int(hexadecimal or "0", 16)
        if number is None
        else int(number, 8 if number.startswith("0") else 10)
    )
    return bytes((value & 0xFF,))


def _bytes(text: str) -> bytes:
    """Encode an argument; bytes that are not UTF-8 are written as they were given."""
    return text.encode("utf-8", "surrogateescape")


def formatter(template: str, *, null: bytes = b"") -> Write:
    """How a record is written by `-f`. Raises ConfigError."""
    parts: list[Write] = []
    end = 0
    for token in _TOKEN.finditer(template):
        parts.append(_literal(template[end : token.start()]))
        parts.append(_token(token[1], null))
        end = token.end()
    parts.append(_literal(template[end:]))
    return _joined([part for part in parts if part is not _NOTHING])


def delimited(
    delimiter: bytes, key_delimiter: bytes | None, *, with_offset: bool, null: bytes = b""
) -> Write:
    """How a record is written without a format: [offset, key,] value, delimiter."""
    parts = [_token("s", null), _constant(delimiter)]
    if key_delimiter is not None:
        parts = [_token("k", null), _constant(key_delimiter), *parts]
        if with_offset:
            parts = [_token("o", null), _constant(key_delimiter), *parts]
    return _joined(parts)


def _joined(parts: Sequence[Write]) -> Write:
    if len(parts) == 1:
        return parts[0]
    return lambda message: b"".join([part(message) for part in parts])


def _literal(text: str) -> Write:
    return _constant(unescape(text)) if text else _NOTHING


def _constant(data: bytes) -> Write:
    return lambda _: data


_NOTHING: Final = _constant(b"")


def _token(letter: str, null: bytes) -> Write:
    match letter:
        case "s":
            return lambda message: message.value or null
        case "k":
            return lambda message: message.key or null
        case "h":
            return lambda message: _headers(message.headers)
        case _ if letter in _TOKENS:
            return _TOKENS[letter]
        case "":
            raise ConfigError("the format ends with a %; %% is a percent sign")
        case _:
            tokens = " ".join(f"%{token}" for token in ("s", "k", "h", *_TOKENS))
            raise ConfigError(f"the format has an unknown token %{letter}; there are {tokens}")


def _length(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def _headers(headers: Iterable[Header]) -> bytes:
    """Null is NULL here, with or without -Z."""
    return b",".join(
        _bytes(name) + b"=" + (NULL if value is None else value) for name, value in headers
    )


_TOKENS: Final[dict[str, Write]] = {
    "S": lambda message: b"%d" % _length(message.raw.value),
    "K": lambda message: b"%d" % _length(message.raw.key),
    "R": lambda message: _pack_length(_length(message.raw.value)),
    "t": lambda message: _bytes(message.topic),
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.offset,
    "T": lambda message: b"%d" % message.timestamp,
    "%": lambda _: b"%",
}

# --- JSON
# ------------------------------------------------------------

_JSON_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")
_TIMESTAMP_TYPES: Final = {0: "create", 1: "logappend"}


def json_envelope(broker_of: Callable[[Message], int]) -> Write:
    """Formats a record for `-J`: one object on one line, members in kcat's order.

    Where bytes are no UTF-8, kcat writes a line that is no JSON. Here they are U+FFFD in the text,
    and a member `…_base64` has all bytes of the field. A value that was deserialized to JSON is
    part of the object. If that failed, the member is null, with the error beside it.
    """

    def write(message: Message) -> bytes:
        envelope: dict[str, object] = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "tstype": _TIMESTAMP_TYPES.get(message.timestamp_type, "unknown"),
            "ts": message.timestamp,
            "broker": broker_of(message),
        }
        if message.headers:
            envelope |= _header_members(message.headers)
        envelope |= _field("key", "key", lambda: message.key)
        envelope |= _field("payload", "value", lambda: message.value)
        text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
        return _JSON_ESCAPE.sub(_as_kcat, text).encode("utf-8", "replace") + b"\n"

    return write


def _header_members(headers: Sequence[Header]) -> dict[str, object]:
    members: dict[str, object] = {
        "headers": [text for name, value in headers for text in (_text(_bytes(name)), _text(value))]
    }
    if not all(_is_utf8(value) and _is_utf8(_bytes(name)) for name, value in headers):
        members["headers_base64"] = [
            text for name, value in headers for text in (_base64(_bytes(name)), _base64(value))
        ]
    return members


def _field(name: str, kind: str, read: Callable[[], bytes | None]) -> dict[str, object]:
    try:
        data = read()
    except DeserializationError as error:
        return {name: None, f"{name}_error": str(error)}
    if isinstance(data, JsonText):
        return {name: json.loads(data), f"{kind}_schema_id": data.schema_id}
    members: dict[str, object] = {name: _text(data)}
    if not _is_utf8(data):
        members[f"{name}_base64"] = _base64(data)
    return members


def _as_kcat(escape: re.Match[str]) -> str:
    """`\\u001F`, where Python writes `\\u001f`."""
    return escape[0] if escape[1] is None else f"\\u{escape[1].upper()}"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _is_utf8(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
