"""Who asks, and by which listener: values without I/O."""

from kohort.security.peer import Endpoint, Peer, SecurityProtocol
from kohort.security.principal import ANONYMOUS, USER, KafkaPrincipal

__all__ = [
    "ANONYMOUS",
    "USER",
    "Endpoint",
    "KafkaPrincipal",
    "Peer",
    "SecurityProtocol",
]
