"""What is wrong with a TLS connection, and what to do, in one line."""

import ssl
from typing import Final

from kohort.client.security import Security

NO_TLS: Final = "is this a listener without TLS (security protocol PLAINTEXT, SASL_PLAINTEXT)?"
ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection ended. Another attempt may succeed, while other errors are final, as in Java."""
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons for a peer whose bytes are not TLS."""
_UNTRUSTED: Final = "trust its authority with ssl_cafile (ssl.truststore.location)"
_OTHER_HOST: Final = "connect by a name in the certificate, or issue one with this name"
_OF_VERIFICATION: Final = {
    9: "check the clocks of the broker and of this machine",
    10: "renew the broker's certificate",
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}
"""OpenSSL's X509_V_ERR_… → what to do."""


def told(error: ssl.SSLError) -> str:
    """The error, and what to do about it if that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"certificate verify failed: {error.verify_message.rstrip('.')}"
        hint = _OF_VERIFICATION.get(error.verify_code)
    else:
        text, hint = str(error), _hint(error.reason or "")
    return f"{text}; {hint}" if hint else text


def certificate_hint(security: Security) -> str:
    """What may be wrong with the client's certificate if the broker closes the connection."""
    if security.ssl_context is not None:
        return ""
    if security.ssl_certfile or security.ssl_certdata:
        return " Or does the broker not trust the certificate of this client?"
    return " Or does the broker require a client certificate (ssl_certfile)?"


def _hint(reason: str) -> str | None:
    if reason in _NOT_TLS:
        return NO_TLS
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return "give a client certificate that it trusts: ssl_certfile (ssl.keystore.location)"
    return None
