"""Listeners and clients of tests without a broker."""

from kohort.security import ANONYMOUS, Endpoint, KafkaPrincipal, Peer, SecurityProtocol

ENDPOINT = Endpoint(
    listener="PLAINTEXT",
    security_protocol=SecurityProtocol.PLAINTEXT,
    host="broker.test",
    port=9092,
)


def peer(principal: KafkaPrincipal = ANONYMOUS, endpoint: Endpoint = ENDPOINT) -> Peer:
    """A client on this machine."""
    return Peer(principal=principal, host="127.0.0.1", endpoint=endpoint)
