"""The place of the logs, which `storage` names."""

from typing import Final, Protocol
from urllib.parse import urlsplit

from kohort.suggestions import did_you_mean

LOCAL: Final = "local"
MEMORY: Final = "memory"
_SCHEMES: Final = ("postgresql", "postgres")


class _Settings(Protocol):
    def __getitem__(self, name: str, /) -> object: ...


def parse_storage(text: str) -> str:
    """`local`, `memory` or the URL of a PostgreSQL database. Raises ValueError."""
    if text not in (LOCAL, MEMORY):
        parts = urlsplit(text)
        if parts.scheme not in _SCHEMES or not text.startswith(f"{parts.scheme}://"):
            raise ValueError(
                f"{shown_storage(text)!r} is not local, memory or postgresql://…"
                f"{did_you_mean(text, (LOCAL, MEMORY))}"
            )
    return text


def in_postgres(storage: str) -> bool:
    """Whether the logs are in PostgreSQL."""
    return storage not in (LOCAL, MEMORY)


def shown_storage(storage: str) -> str:
    """The value without the user, the password and the parameters of a URL."""
    parts = urlsplit(storage)
    if not parts.netloc:
        return storage
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def waits_for_disk(config: _Settings) -> bool:
    """Whether an append is acknowledged later than it is made, when it is durable."""
    return config["durability"] == "fsync" or config["storage"] not in (LOCAL, MEMORY)
