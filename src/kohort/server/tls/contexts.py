"""TLS of a listener: its context from PEM, and the principals of client certificates.

A new context replaces the current one only if it could be created from the settings. Open
connections keep theirs. Key and certificates are read once, so that a file that changes meanwhile
cannot mix them.
"""

import os
import re
import ssl
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kohort.errors import ConfigError
from kohort.security import (
    ANONYMOUS,
    USER,
    KafkaPrincipal,
    MappingRules,
    alternative_names,
    subject_name,
    validity,
)
from kohort.server.config import RELOADABLE, Config, ListenerConfig
from kohort.server.tls.guarded_context import GuardedContext

DEFAULT_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2 with forward secrecy and authenticated encryption, as all of TLS 1.3."""
MAX_FILE_BYTES: Final = 1024 * 1024
"""Characters of a file of keys or certificates."""
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
_PLAIN_KEY: Final = re.compile("-----BEGIN (RSA |EC )?PRIVATE KEY-----(?!\\s*Proc-Type)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeys:
    """Key and certificates of a listener as they were read."""

    context: ssl.SSLContext
    certificate: bytes
    """The server's, in DER."""
    for_nodes: ssl.SSLContext | None
    """The context by which this node connects to others; None: they have another listener."""
    settings: tuple[Any, ...]
    """Values by which they were read, of the names in `RELOADABLE`."""


class ListenerTls:
    """The TLS of one listener, whose `context` is that of new connections."""

    context: ssl.SSLContext

    def __init__(self, config: Config, listener: ListenerConfig) -> None:
        """Raises ConfigError for what cannot be used."""
        self._listener = listener
        reader = _Reader(config, listener)
        self.use(reader.keys())
        self._rules = MappingRules.parse(reader.value("ssl.principal.mapping.rules"))
        self.handshake_timeout_s: float = reader.value("ssl.handshake.timeout.ms") / 1000

    @property
    def listener(self) -> str:
        """The name of the listener."""
        return self._listener.name

    @property
    def for_nodes(self) -> ssl.SSLContext:
        """The context by which this node connects to the same listener of others."""
        assert self._keys.for_nodes is not None, "nodes connect by another listener"
        return self._keys.for_nodes

    def is_configured_by(self, config: Config) -> bool:
        """Whether the current keys were read by the settings of `config`."""
        return _Reader(config, self._listener).settings() == self._keys.settings

    def use(self, keys: ServerKeys) -> None:
        """Take `keys` for new connections."""
        self._keys = keys
        self.context = keys.context

    def replacement(self, config: Config) -> ServerKeys:
        """Read keys and certificates by `config`, in any thread.

        Raises ConfigError for files that cannot replace the current ones.
        """
        reader = _Reader(config, self._listener)
        keys = reader.keys()
        old, new = self._keys.certificate, keys.certificate
        try:
            has_same_name = subject_name(new) == subject_name(old)
            has_all_names = alternative_names(old) <= alternative_names(new)
            begins, ends = validity(new)
        except ValueError as error:
            raise reader.error(str(error)) from None
        if not begins <= datetime.now(UTC) <= ends:
            raise reader.error(f"the new certificate is valid from {begins} to {ends} only")
        if not has_same_name and not reader.value("ssl.allow.dn.changes"):
            raise reader.error("the new certificate has another name; see ssl.allow.dn.changes")
        if not has_all_names and not reader.value("ssl.allow.san.changes"):
            raise reader.error(
                "the new certificate lacks alternative names of the old one; "
                "see ssl.allow.san.changes"
            )
        return keys

    def principal(self, certificate: bytes | None) -> KafkaPrincipal:
        """The principal of a client with a certificate in DER, or with none. Raises ValueError."""
        if certificate is None:
            return ANONYMOUS
        name = self._rules.apply(subject_name(certificate))
        if name is None:
            raise ValueError("no rule of ssl.principal.mapping.rules matches its certificate")
        return KafkaPrincipal(USER, name)


class _Reader:
    """Reads the configured files of one listener."""

    def __init__(self, config: Config, listener: ListenerConfig) -> None:
        self._config = config
        self._listener = listener
        inter_broker = config.inter_broker
        is_for_nodes = inter_broker is not None and inter_broker.listener.name == listener.name
        self._inter_broker = inter_broker if is_for_nodes else None

    def value(self, name: str) -> Any:
        return self._config.of_listener(self._listener.name, name)

    def error(self, why: str) -> ConfigError:
        return ConfigError(f"listener {self._listener.name}: {why}")

    def settings(self) -> tuple[Any, ...]:
        """Values of the settings that clients can change."""
        return tuple(self.value(name) for name in sorted(RELOADABLE))

    def keys(self) -> ServerKeys:
        """Read keys and certificates into new contexts. Raises ConfigError."""
        settings, client_auth = self.settings(), self._client_auth()
        key_store = self._key_store()
        trusted = self._trust_store() if client_auth != "none" or self._inter_broker else None
        certificate = _CERTIFICATE.search(key_store)
        if certificate is None:
            raise self.error("the key store has no certificate")
        context = GuardedContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        self._set_up(context, key_store)
        self._ask_for_certificates(context, client_auth, trusted)
        return ServerKeys(
            context=context,
            certificate=ssl.PEM_cert_to_DER_cert(certificate[0]),
            for_nodes=self._for_nodes(key_store, trusted, context),
            settings=settings,
        )

    def _set_up(self, context: ssl.SSLContext, key_store: str) -> None:
        versions = sorted(_VERSIONS[protocol] for protocol in self.value("ssl.enabled.protocols"))
        if not versions:
            raise self.error("ssl.enabled.protocols: a version is needed")
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        self._set_ciphers(context, self.value("ssl.cipher.suites"))
        self._load_key(context, key_store)

    def _for_nodes(
        self, key_store: str, trusted: str | None, server: ssl.SSLContext
    ) -> ssl.SSLContext | None:
        """The context of this node as a client of others. As in Kafka, it accepts its own."""
        if self._inter_broker is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._set_up(context, key_store)
        if trusted is None:
            context.load_default_certs()
        else:
            self._trust(context, trusted)
        context.check_hostname = False
        try:
            shake_hands(context, server)
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", None) or error.reason or str(error)
            raise self.error(
                f"nodes connect to each other by it, and would refuse this key store: {why}; its "
                "certificate has to be valid for servers and clients, and of an authority in "
                "ssl.truststore.location"
            ) from None
        context.check_hostname = self._inter_broker.checks_names
        return context

    def _set_ciphers(self, context: ssl.SSLContext, suites: Iterable[str]) -> None:
        names = [_openssl_name(suite) for suite in suites]
        for name in names:
            try:
                context.set_ciphers(name)
            except ssl.SSLError:
                raise self.error(f"ssl.cipher.suites: {name} is not known here") from None
        context.set_ciphers(":".join(names) or DEFAULT_CIPHERS)

    def _load_key(self, context: ssl.SSLContext, key_store: str) -> None:
        password = self.value("ssl.key.password")
        with _as_file(key_store) as path:
            try:
                # A function, as without a password OpenSSL would ask for it on the terminal.
                context.load_cert_chain(path, password=lambda: password or "")
            except (OSError, ValueError) as error:
                why = _reason(error, "there is no private key in PEM that ssl.key.password opens")
                raise self.error(f"key and certificates cannot be used: {why}") from None

    def _key_store(self) -> str:
        key, location = self.value("ssl.keystore.key"), self.value("ssl.keystore.location")
        if key is not None:
            return f"{key}\n{self.value('ssl.keystore.certificate.chain') or ''}"
        if location is None:
            raise self.error(
                "ssl.keystore.location is needed: a PEM file of the server's key and certificates"
            )
        pem, mode = self._read(location, "ssl.keystore.location")
        if mode & stat.S_IROTH and _PLAIN_KEY.search(pem) and not self._config["insecure"]:
            raise self.error(
                f"ssl.keystore.location: every user can read the key in {location}; take that away "
                "from others (chmod o-r), encrypt the key, or say --insecure"
            )
        return pem

    def _client_auth(self) -> str:
        if self._listener.security_protocol.has_sasl:
            return self._config.own_of_listener(self._listener.name, "ssl.client.auth") or "none"
        client_auth: str = self.value("ssl.client.auth")
        return client_auth

    def _ask_for_certificates(
        self, context: ssl.SSLContext, client_auth: str, trusted: str | None
    ) -> None:
        context.verify_mode = _VERIFY[client_auth]
        if client_auth == "none":
            return
        if trusted is None:
            raise self.error(
                f"ssl.client.auth={client_auth} needs ssl.truststore.location: a PEM file of the "
                "authorities that sign the certificates of clients"
            )
        self._trust(context, trusted)

    def _trust_store(self) -> str | None:
        pem: str | None = self.value("ssl.truststore.certificates")
        location = self.value("ssl.truststore.location")
        if pem is None and location is not None:
            pem, _ = self._read(location, "ssl.truststore.location")
        return pem

    def _trust(self, context: ssl.SSLContext, trusted: str) -> None:
        try:
            context.load_verify_locations(cadata="\n".join(_CERTIFICATE.findall(trusted)))
        except (OSError, ValueError) as error:
            why = _reason(error, "it is not PEM")
            raise self.error(f"the trust store cannot be used: {why}") from None

    def _read(self, location: str, name: str) -> tuple[str, int]:
        """The text of a file, and its mode."""
        try:
            # A pipe without a writer would hold up the server.
            descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, encoding="ascii", errors="replace") as file:
                mode = os.fstat(descriptor).st_mode
                text = file.read(MAX_FILE_BYTES + 1) if stat.S_ISREG(mode) else ""
        except OSError as error:
            raise self.error(f"{name}: {location} cannot be read: {error.strerror}") from None
        if not text or len(text) > MAX_FILE_BYTES:
            raise self.error(f"{name}: {location} is no file of PEM")
        return text, mode


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """The path of a file of the text: OpenSSL takes keys from files only."""
    if hasattr(os, "memfd_create"):  # never on a disk
        descriptor = os.memfd_create("kohort-key")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp(prefix="kohort-")  # mode 0600
        os.unlink(path)
        path = f"/dev/fd/{descriptor}"
    try:
        os.write(descriptor, text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield path
    finally:
        os.close(descriptor)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake of the two in memory. Raises ssl.SSLError if it fails."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite of TLS 1.2 that may have IANA's."""
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        return suite
    cipher = re.sub("AES_(128|256)", r"AES\1", cipher).replace("POLY1305_SHA256", "POLY1305")
    return f"{exchange}-{cipher}".replace("_", "-")


def _reason(error: Exception, unparsed: str) -> str:
    """Why OpenSSL refuses keys or certificates; `unparsed` where it only says that it does."""
    return error.reason or unparsed if isinstance(error, ssl.SSLError) else str(error)
