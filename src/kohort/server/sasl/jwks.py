"""The keys that sign bearer tokens, read from a file or an https address.

They are fetched in another thread: when the server starts, once in
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon when a token names a key that is not known,
because issuers change their keys. A fetch that fails leaves the keys as they are.
"""

import asyncio
import logging
from collections.abc import Callable
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from kohort.errors import ConfigError
from kohort.runtime.clock import Clock
from kohort.security.jwt import KeySet
from kohort.server.logging import fields
from kohort.util.https_get import fetch

TIMEOUT_S: Final = 10.0
"""Time limit of a fetch, as in `small_documents.fetch`."""
UNKNOWN_KEY_RETRY_MS: Final = 60_000
MAX_UNKNOWN: Final = 16
"""Unknown keys that are asked for in a minute."""
RETRY_MS: Final = 60_000
"""Time to the next attempt when a fetch has failed."""

logger = logging.getLogger("kohort.sasl")

Fetch = Callable[[str], bytes]
"""The document at a URL, blocking. Raises OSError, ValueError or HTTPException."""


def _fetched(url: str) -> bytes:
    return fetch(url, TIMEOUT_S)


class Jwks:
    """The keys of one JWKS document."""

    def __init__(self, url: str, refresh_ms: int, clock: Clock, *, fetch: Fetch = _fetched) -> None:
        self.keys = KeySet('{"keys":[]}')
        self._url = url
        self._refresh_ms = refresh_ms
        self._clock = clock
        self._fetch = fetch
        self._unknown: dict[str, int] = {}
        """When a key was asked for, by its id."""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Jwks {self._url} keys={len(self.keys)}>"

    async def start(self) -> None:
        """Fetch the keys regularly until `close`. A failure is logged."""
        await self._refresh()

    def ask_for(self, key_id: str) -> None:
        """Fetch the keys soon, as this one is missing; once in a minute for the same key."""
        now = self._clock.now()
        self._unknown = {
            unknown_id: asked_at
            for unknown_id, asked_at in self._unknown.items()
            if now - asked_at < UNKNOWN_KEY_RETRY_MS
        }
        if key_id not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
            self._unknown[key_id] = now
            self._refresh_soon()

    async def close(self) -> None:
        """Fetch no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _refresh_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        again_ms = self._refresh_ms
        try:
            self.keys = await asyncio.to_thread(self._read)
        except (OSError, ValueError, HTTPException) as error:
            again_ms = min(again_ms, RETRY_MS)
            logger.error("cannot fetch the JWKS", extra=fields(url=self._url, why=error))
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(again_ms / 1000, self._refresh_soon)

    def _read(self) -> KeySet:
        return KeySet(self._fetch(self._url))


def validate_url(url: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError for a URL that is not allowed."""
    if urlsplit(url).scheme not in ("file", "https"):
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {url} is neither https nor file")
    if url not in allowed:
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url: {url} is not one of "
            "org.apache.kafka.sasl.oauthbearer.allowed.urls"
        )
