"""Connections to brokers: one request pipeline per connection, opened by purpose, with TLS and SASL."""

from kohort.client.net.connection import Connection, named
from kohort.client.net.connections import Connections, Key
from kohort.client.net.versions import Frame, Wire, preload, wire

__all__ = ["Connection", "Connections", "Frame", "Key", "Wire", "named", "preload", "wire"]
