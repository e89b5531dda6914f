"""TCP connections: bytes in, one request at a time, responses out in order."""

from kohort.server.net.connection import WRITE_BATCH_SIZE, Connection, Dispatch
from kohort.server.net.connection_limits import ConnectionLimits
from kohort.server.net.dispatcher import Dispatcher, FastPath, HandlerModule
from kohort.server.net.exchange import Exchange
from kohort.server.net.failed_logins import FailedLogins
from kohort.server.net.file_descriptors import raise_limit, warn_of_low_limit
from kohort.server.net.listener import Protection, Tls
from kohort.server.net.listeners import Listeners, ListenerStatistics, certificate_of
from kohort.server.net.login import AuthenticateAnswer, Sasl
from kohort.server.net.port_check import ensure_can_listen
from kohort.server.net.repeated_requests import (
    AFTER_CORRELATION_ID,
    CORRELATION_ID,
    RepeatedRequest,
    SameRequest,
)
from kohort.server.net.request_queue import READ_AHEAD, RequestQueue
from kohort.server.net.sockets import Listen, close_all, listen_on, listen_on_path

__all__ = [
    "AFTER_CORRELATION_ID",
    "CORRELATION_ID",
    "READ_AHEAD",
    "WRITE_BATCH_SIZE",
    "AuthenticateAnswer",
    "Connection",
    "ConnectionLimits",
    "Dispatch",
    "Dispatcher",
    "Exchange",
    "FailedLogins",
    "FastPath",
    "HandlerModule",
    "Listen",
    "ListenerStatistics",
    "Listeners",
    "Protection",
    "RepeatedRequest",
    "RequestQueue",
    "SameRequest",
    "Sasl",
    "Tls",
    "certificate_of",
    "close_all",
    "ensure_can_listen",
    "listen_on",
    "listen_on_path",
    "raise_limit",
    "warn_of_low_limit",
]
