"""Where the data of a server is: a data directory, or a PostgreSQL database."""

import importlib.util

from kohort.cli.options import RefusedError


def in_postgres(place: str) -> bool:
    """Whether it is the URL of a database. Raises RefusedError if databases cannot be used."""
    if not place.startswith(("postgresql://", "postgres://")):
        return False
    if importlib.util.find_spec("asyncpg") is None:
        raise RefusedError("PostgreSQL needs asyncpg: pip install 'kohort[postgres]'")
    return True
