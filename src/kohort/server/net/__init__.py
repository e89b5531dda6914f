"""TCP connections: bytes in, one request at a time, responses out in order."""

from kohort.server.net.connection import READ_AHEAD, WRITE_TOGETHER, Connection
from kohort.server.net.exchange import Exchange
from kohort.server.net.listener import Listener
from kohort.server.net.repeated_commits import KEPT_BYTES, CommitAgain
from kohort.server.net.repeated_requests import Ask

__all__ = [
    "KEPT_BYTES",
    "READ_AHEAD",
    "WRITE_TOGETHER",
    "Ask",
    "CommitAgain",
    "Connection",
    "Exchange",
    "Listener",
]
