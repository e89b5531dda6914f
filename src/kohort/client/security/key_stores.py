"""Reads Java's key and trust stores, JKS and PKCS12, as PEM text for `Security`.

JKS is read here: its format is short and has not changed since Java 1.2. PKCS12, which Java writes
by default since version 9, is read by the package `cryptography`.
"""

import base64
import hashlib
import hmac
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct, error
from typing import Final

from kohort.errors import ConfigError

_JKS: Final = b"\xfe\xed\xfe\xed"
_SEQUENCE: Final = b"\x30"
"""First byte of a PKCS12 file, which is DER."""
_PEM: Final = b"-----BEGIN "
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_DIGEST: Final = hashlib.sha1(usedforsecurity=False).digest_size
_WHITENER: Final = b"Mighty Aphrodite"
"""Of the digest of a JKS file, as in Java's JavaKeyStore."""
_WRONG_PASSWORD: Final = "the password is wrong, or the file is damaged"
_int32 = Struct(">i").unpack_from
_uint16 = Struct(">H").unpack_from


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """The content of a store, as PEM."""

    trusted: str
    """Certificates of authorities; "" if there are none."""
    chain: str
    """The certificates of the first private key, its own first; "" if there is no key."""
    key: str = field(repr=False)
    """That key, in PKCS8 without encryption."""


def read_key_store(path: str, password: str | None, key_password: str | None) -> KeyStore | None:
    """The content of a file in JKS or PKCS12, told apart by their first bytes; None for PEM.

    Without `key_password` the password of the store is used. Raises ConfigError with the reason.
    """
    try:
        content = Path(path).read_bytes()
        if content.startswith(_JKS):
            return _read_jks(content, password, key_password or password)
        if content.startswith(_SEQUENCE):
            return _read_pkcs12(content, password)
    except (OSError, ValueError, IndexError, error) as failed:
        reason = failed.strerror if isinstance(failed, OSError) else str(failed)
        raise ConfigError(f"{path} cannot be read: {reason or _WRONG_PASSWORD}") from None
    if _PEM not in content:
        raise ConfigError(f"{path} is neither JKS nor PKCS12 nor PEM")
    return None


def _sha1(data: bytes) -> bytes:
    """The digest that the format prescribes; its strength is not this client's choice."""
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _read_jks(content: bytes, password: str | None, key_password: str | None) -> KeyStore:
    if password is not None:
        body, digest = content[:-_DIGEST], content[-_DIGEST:]
        expected = _sha1(password.encode("utf-16-be") + _WHITENER + body)
        if not hmac.compare_digest(expected, digest):
            raise ValueError(_WRONG_PASSWORD)
    reader = _JksReader(content)
    trusted, chains = [], []
    for _ in range(reader.count):
        kind = reader.entry()
        if kind == _CERTIFICATE_ENTRY:
            trusted.append(reader.certificate())
        elif kind == _KEY_ENTRY:
            protected = reader.sized()
            chains.append((protected, list(reader.certificates())))
        else:
            raise ValueError(f"an entry of kind {kind}")
    key, chain = "", ""
    if chains:
        if key_password is None:
            raise ValueError("it needs a password")
        key = _pem("PRIVATE KEY", _unprotected(chains[0][0], key_password))
        chain = "".join(_pem("CERTIFICATE", certificate) for certificate in chains[0][1])
    return KeyStore(
        trusted="".join(_pem("CERTIFICATE", certificate) for certificate in trusted),
        chain=chain,
        key=key,
    )


class _JksReader:
    """A position in a JKS file, and reads from there."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._version, self.count = _int32(content, 4)[0], _int32(content, 8)[0]
        self._position = 12

    def entry(self) -> int:
        """The kind of the next entry; its alias and date are skipped."""
        kind = self._int32()
        self._text()
        self._position += 8
        return kind

    def certificate(self) -> bytes:
        """In DER."""
        if self._version > 1:
            self._text()  # X.509
        return self.sized()

    def certificates(self) -> Iterator[bytes]:
        for _ in range(self._int32()):
            yield self.certificate()

    def sized(self) -> bytes:
        return self._read_bytes(self._int32())

    def _text(self) -> None:
        size: int = _uint16(self._content, self._position)[0]
        self._position += 2
        self._read_bytes(size)

    def _int32(self) -> int:
        number: int = _int32(self._content, self._position)[0]
        self._position += 4
        return number

    def _read_bytes(self, size: int) -> bytes:
        chunk = self._content[self._position : self._position + size]
        if size < 0 or len(chunk) < size:
            raise ValueError(_WRONG_PASSWORD)
        self._position += size
        return chunk


def _unprotected(protected: bytes, password: str) -> bytes:
    """A private key as PKCS8, from Sun's KeyProtector: salt, key ^ SHA-1 stream, digest."""
    data = _octets(protected)
    salt, hidden, digest = data[:_DIGEST], data[_DIGEST:-_DIGEST], data[-_DIGEST:]
    secret = password.encode("utf-16-be")
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = _sha1(secret + block)
        stream += block
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret + key), digest):
        raise ValueError("the password of the key is wrong")
    return key


def _octets(protected: bytes) -> bytes:
    """The data of a PKCS8 EncryptedPrivateKeyInfo: a sequence of algorithm and octets."""
    start, _ = _der(protected, 0)
    _, data_at = _der(protected, start)
    start, end = _der(protected, data_at)
    return protected[start:end]


def _der(data: bytes, position: int) -> tuple[int, int]:
    """Where the content of the DER element at `position` begins and ends."""
    size, start = data[position + 1], position + 2
    if size & 0x80:
        width = size & 0x7F
        size, start = int.from_bytes(data[start : start + width], "big"), start + width
    return start, start + size


def _read_pkcs12(content: bytes, password: str | None) -> KeyStore:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            "PKCS12 stores need a package that is not installed: pip install 'kohort[pkcs12]'"
        ) from None
    der = serialization.Encoding.DER
    store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    others = "".join(
        _pem("CERTIFICATE", certificate.certificate.public_bytes(der))
        for certificate in store.additional_certs
    )
    if store.key is None or store.cert is None:
        return KeyStore(trusted=others, chain="", key="")
    key = store.key.private_bytes(
        der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    own_certificate = _pem("CERTIFICATE", store.cert.certificate.public_bytes(der))
    return KeyStore(trusted=others, chain=own_certificate + others, key=_pem("PRIVATE KEY", key))


def pem(label: str, encoded: str) -> str:
    """A block of PEM with base64 as its content."""
    lines = "\n".join(textwrap.wrap(encoded, 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _pem(label: str, der: bytes) -> str:
    return pem(label, base64.b64encode(der).decode())
