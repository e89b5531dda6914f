"""TLS of listeners: contexts, principals of client certificates, and renewal of certificates."""

from kohort.server.tls.certificates import Certificates
from kohort.server.tls.contexts import ListenerTls
from kohort.server.tls.guarded_context import handshaking

__all__ = [
    "Certificates",
    "ListenerTls",
    "handshaking",
]
