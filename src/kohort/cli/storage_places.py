"""Where the data of a server is: a data directory, or a PostgreSQL database."""

import importlib.util

from kohort.cli.options import RefusedError
from kohort.server.config import parse_storage


def in_postgres(place: str) -> bool:
    """Whether it is the URL of a database. Raises RefusedError if that cannot be used."""
    if not place.startswith(("postgresql://", "postgres://")):
        return False
    try:
        parse_storage(place)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if importlib.util.find_spec("asyncpg") is None:
        raise RefusedError("PostgreSQL needs asyncpg: pip install 'kohort[postgres]'")
    return True


def told(error: Exception) -> str:
    """An error in the words of the disk or the database."""
    if not isinstance(error, OSError):
        return str(error)
    what = error.strerror or str(error)
    return what if error.filename is None else f"{error.filename}: {what}"
