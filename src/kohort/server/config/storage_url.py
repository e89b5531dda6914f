"""The place of the logs, which `storage` names."""

import re
from typing import Final, Protocol

from kohort.util.text import did_you_mean

LOCAL: Final = "local"
MEMORY: Final = "memory"
_SCHEMES: Final = ("postgresql", "postgres")
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*(?:%[^\]]*)?\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LAST_PORT: Final = 65_535
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:/{0,2})(?P<rest>.*)", re.DOTALL)
"""Also one that lacks slashes, and has a password all the same."""
_PARAMETERS: Final = re.compile("[?#]")


class _Settings(Protocol):
    def __getitem__(self, name: str, /) -> object: ...


def parse_storage(text: str) -> str:
    """`local`, `memory` or the URL of a PostgreSQL database. Raises ValueError."""
    if text in (LOCAL, MEMORY):
        return text
    scheme, separator, location = text.partition("://")
    if scheme not in _SCHEMES or not separator:
        raise ValueError(
            f"{storage_without_secrets(text)!r} is not local, memory or postgresql://…"
            f"{did_you_mean(text, (LOCAL, MEMORY))}"
        )
    if not _is_unambiguous(location):
        raise ValueError(
            f"{storage_without_secrets(text)!r} is not "
            "postgresql://USER@HOST:PORT/DATABASE?NAME=VALUE&…; in a password or a parameter, "
            "write / ? # @ [ ] as %2F %3F %23 %40 %5B %5D"
        )
    return text


def _is_unambiguous(location_and_query: str) -> bool:
    """Whether a URL without its scheme is parsed alike by all: hosts, a database, parameters.

    Errors of later parsers would show parts of a password.
    """
    if "#" in location_and_query:
        return False
    location, _, query = location_and_query.partition("?")
    authority, _, database = location.partition("/")
    user, at_sign, hosts = authority.rpartition("@")
    if "@" in database or ("@" in query and not at_sign) or set("[]") & {*user}:
        return False
    parameters = query.split("&") if query else ()
    return all(map(_is_host, hosts.split(","))) and all(
        "=" in parameter for parameter in parameters
    )


def _is_host(text: str) -> bool:
    """Whether it is a host, with a port or without."""
    match = _HOST.fullmatch(text)
    return match is not None and int(match["port"] or 0) <= _LAST_PORT


def in_postgres(storage: str) -> bool:
    """Whether the logs are in PostgreSQL."""
    return storage not in (LOCAL, MEMORY)


def storage_without_secrets(storage: str) -> str:
    """The value without the user, the password and the parameters of a URL.

    Only the scheme if the password has unescaped delimiters.
    """
    url = _URL.fullmatch(storage)
    if url is None:
        return storage
    location = _PARAMETERS.split(url["rest"], maxsplit=1)[0]
    if "@" in url["rest"] and "@" not in location:
        return f"{url['scheme']}…"
    return f"{url['scheme']}{location.rpartition('@')[2]}"


def waits_for_disk(config: _Settings) -> bool:
    """Whether an append is acknowledged later than it is made, when it is durable."""
    return config["durability"] == "fsync" or config["storage"] not in (LOCAL, MEMORY)
