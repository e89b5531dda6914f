"""All clients under test."""

from interop import built, programs
from interop.programs import Client

CLIENTS: tuple[Client, ...] = (*programs.CLIENTS, *built.CLIENTS)


def named(name: str) -> Client:
    return next(client for client in CLIENTS if client.name == name)
