"""Monitoring of a server: health, metrics, groups as JSON, rebalances as log lines."""

from kohort.server.monitoring.front_page import index_page
from kohort.server.monitoring.http_port import HttpPort, HttpResponse, Route, json_response
from kohort.server.monitoring.observed_server import ObservedServer
from kohort.server.monitoring.observer import Observer, open_http_port

__all__ = [
    "HttpPort",
    "HttpResponse",
    "ObservedServer",
    "Observer",
    "Route",
    "index_page",
    "json_response",
    "open_http_port",
]
