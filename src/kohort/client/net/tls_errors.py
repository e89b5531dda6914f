"""Messages about TLS errors, with advice, in one line."""

import ssl
from typing import Final

from kohort.client.security import Security

NO_TLS: Final = "is this a listener without TLS (security protocol PLAINTEXT, SASL_PLAINTEXT)?"
CONNECTION_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of a connection that ended. Another attempt may succeed; other errors are final, as in
Java."""
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons for a peer that sends no TLS."""
_UNTRUSTED: Final = "trust its authority with ssl_cafile (ssl.truststore.location)"
_WRONG_HOST: Final = "connect by a name in the certificate, or issue one with this name"
_VERIFICATION_HINTS: Final = {
    9: "check the clocks of the broker and of this machine",
    10: "renew the broker's certificate",
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    62: _WRONG_HOST,
    64: _WRONG_HOST,
}
"""Advice by OpenSSL's X509_V_ERR_… code."""


def describe_tls_error(error: ssl.SSLError) -> str:
    """The error, with advice if there is any."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"certificate verify failed: {error.verify_message.rstrip('.')}"
        hint = _VERIFICATION_HINTS.get(error.verify_code)
    else:
        text, hint = str(error), _hint(error.reason or "")
    return f"{text}; {hint}" if hint else text


def certificate_hint(security: Security) -> str:
    """Possible cause, a client certificate, if the broker closes the connection."""
    if security.ssl_context is not None:
        return ""
    if security.ssl_certfile or security.ssl_certdata:
        return " Or does the broker not trust the certificate of this client?"
    return " Or does the broker require a client certificate (ssl_certfile)?"


def _hint(reason: str) -> str | None:
    if reason in _NOT_TLS:
        return NO_TLS
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            "set a client certificate that the broker trusts: ssl_certfile (ssl.keystore.location)"
        )
    return None
