"""Locations of a server's data: a data directory, or a PostgreSQL database."""

import importlib.util
import re
from typing import Final

from kohort.cli.options import RefusedError
from kohort.server.config import parse_storage, storage_without_secrets

_URL: Final = re.compile(r"postgres(?:ql)?:|[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
"""Beginning of a location that is meant as a URL, even with a missing slash."""


def in_postgres(location: str) -> bool:
    """True for the URL of a database, False for a directory.

    Raises RefusedError for other URLs, and URLs that cannot be used. A directory that looks like a
    URL can be given as `./…`.
    """
    if not location.startswith(("postgresql://", "postgres://")):
        if not location or _URL.match(location):
            masked = storage_without_secrets(location)
            raise RefusedError(f"{masked!r} is neither a directory nor postgresql://…")
        return False
    try:
        parse_storage(location)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if importlib.util.find_spec("asyncpg") is None:
        raise RefusedError("PostgreSQL needs asyncpg: pip install 'kohort[postgres]'")
    return True


def describe_error(error: Exception) -> str:
    """An error as the disk or the database reports it."""
    if not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def refusal_of(location: str, error: Exception) -> RefusedError:
    """RefusedError that names the location and its error."""
    where = f"{storage_without_secrets(location)}: " if in_postgres(location) else ""
    return RefusedError(where + describe_error(error))
