"""The SASL of each listener, as its configuration says."""

from kohort.server.sasl.listeners import SaslListeners

__all__ = ["SaslListeners"]
