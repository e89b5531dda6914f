"""Names in X.509 certificates in Java's format, read from the certificate's DER.

Kafka uses `X500Principal.getName(RFC2253)` as the name of a client: the most specific part first,
keywords for nine attributes, and the hex of the encoding for all others. Python's `ssl` does not
return the types of the values, which that hex includes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

MAX_SUBJECT_BYTES: Final = 16_384
"""Maximum size of a subject's DER; each connection of the client uses memory for it."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Tags of strings that are printed as text. Java reads all as UTF-8, even BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_VALIDITY: Final = 3
"""Index of the validity, after serial number, algorithm and issuer."""
_SUBJECT: Final = 4
_UTC_TIME: Final = 0x17
_FIRST_YEAR: Final = "50"
"""Two-digit years are from 1950 to 2049."""


class _Element(NamedTuple):
    """One element of DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER, "" if it is empty. Raises ValueError."""
    subject = _fields(certificate)[_SUBJECT]
    if len(subject) > MAX_SUBJECT_BYTES:
        raise ValueError(
            f"the subject of the certificate takes more than {MAX_SUBJECT_BYTES} bytes"
        )
    parts = [_relative_name(element.content) for element in _elements(subject)]
    return ",".join(reversed(parts))


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """The first and the last moment of a certificate in DER. Raises ValueError."""
    first, last = map(_time, _elements(_fields(certificate)[_VALIDITY]))
    return first, last


def _time(element: _Element) -> datetime:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        text = f"{'19' if text[:2] >= _FIRST_YEAR else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The subject's alternative names, each in DER, of a certificate in DER. Raises ValueError."""
    for field in _elements(_to_be_signed(certificate)):
        if field.tag == _EXTENSIONS:
            for extension in _elements(_first(field.content).content):
                parts = list(_elements(extension.content))
                if _identifier(parts[0].content) == _ALTERNATIVE_NAMES:
                    names = _first(parts[-1].content)
                    return frozenset(element.whole for element in _elements(names.content))
    return frozenset()


def _to_be_signed(certificate: bytes) -> bytes:
    return _first(_first(certificate).content).content


def _fields(certificate: bytes) -> list[bytes]:
    elements = [
        element for element in _elements(_to_be_signed(certificate)) if element.tag != _VERSION
    ]
    if len(elements) <= _SUBJECT:
        raise ValueError("the certificate has no subject")
    return [element.content for element in elements]


def _elements(data: bytes) -> Iterator[_Element]:
    """The consecutive elements in `data`."""
    position = 0
    while position < len(data):
        try:
            size, start = data[position + 1], position + 2
            if size & 0x80:
                width = size & 0x7F
                size, start = int.from_bytes(data[start : start + width], "big"), start + width
        except IndexError:
            raise ValueError("the certificate ends early") from None
        if start + size > len(data):
            raise ValueError("the certificate ends early")
        yield _Element(data[position], data[start : start + size], data[position : start + size])
        position = start + size


def _first(data: bytes) -> _Element:
    for element in _elements(data):
        return element
    raise ValueError("the certificate ends early")


def _relative_name(content: bytes) -> str:
    return "+".join(_attribute(element.content) for element in _elements(content))


def _attribute(content: bytes) -> str:
    try:
        kind, value = _elements(content)
    except ValueError:
        raise ValueError("an attribute of the subject is no pair") from None
    identifier = _identifier(kind.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or identifier}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    written = "".join(
        f"\\{character}" if character in _ESCAPED else character for character in text
    )
    written = written.replace("\0", "\\00")
    middle = written.strip(_BLANKS)
    before = len(written) - len(written.lstrip(_BLANKS))
    behind = written[before + len(middle) :]
    return (
        "".join(f"\\{character}" for character in written[:before])
        + middle
        + "".join(f"\\{character}" for character in behind)
    )


def _identifier(content: bytes) -> str:
    """An object identifier with dots."""
    numbers, number = list[int](), 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    head = [first, numbers[0] - 40 * first] if numbers else []
    return ".".join(map(str, head + numbers[1:]))
