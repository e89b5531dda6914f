"""Where the data of a server is: a data directory, or a PostgreSQL database."""

import importlib.util
import re
from typing import Final

from kohort.cli.options import RefusedError
from kohort.server.config import parse_storage, storage_without_secrets

_URL: Final = re.compile(r"postgres(?:ql)?:|[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
"""Beginning of a place that is meant as a URL, also with a slash too few."""


def in_postgres(place: str) -> bool:
    """Whether it is the URL of a database, and else a directory. Raises RefusedError.

    A place is refused that is neither, or whose URL cannot be used. A directory that looks like a
    URL can be named with `./` before it.
    """
    if not place.startswith(("postgresql://", "postgres://")):
        if not place or _URL.match(place):
            shown = storage_without_secrets(place)
            raise RefusedError(f"{shown!r} is neither a directory nor postgresql://…")
        return False
    try:
        parse_storage(place)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if importlib.util.find_spec("asyncpg") is None:
        raise RefusedError("PostgreSQL needs asyncpg: pip install 'kohort[postgres]'")
    return True


def describe_error(error: Exception) -> str:
    """An error as the disk or the database reports it."""
    if not isinstance(error, OSError):
        return str(error)
    what = error.strerror or str(error)
    return what if error.filename is None else f"{error.filename}: {what}"


def refused(place: str, error: Exception) -> RefusedError:
    """RefusedError that names the place and its error."""
    where = f"{storage_without_secrets(place)}: " if in_postgres(place) else ""
    return RefusedError(where + describe_error(error))
