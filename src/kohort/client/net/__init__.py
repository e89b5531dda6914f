"""Connections to brokers: pipelined requests, one connection per purpose, TLS and SASL."""

from kohort.client.net.connect_errors import format_address
from kohort.client.net.connection import Connection
from kohort.client.net.connections import Connections, Key
from kohort.client.net.outages import Outages
from kohort.client.net.versions import Frame, Wire, wire

__all__ = ["Connection", "Connections", "Frame", "Key", "Outages", "Wire", "format_address", "wire"]
