"""The certificates of all listeners, and their renewal while the server runs.

Keys and certificates are read in another thread, because an encrypted key takes longer than the
event loop may be held. One renewal ends before the next one reads: the last one wins.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kohort.errors import ConfigError
from kohort.server.config import Config, ListenerConfig
from kohort.server.logging import fields

if TYPE_CHECKING:
    import ssl

    from kohort.server.tls.contexts import ListenerTls, ServerKeys

logger = logging.getLogger("kohort.serve")


class Certificates:
    """TLS of the listeners that have it, and of the HTTP port."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._listeners: dict[str, ListenerTls] = {}  # by their names in lower case
        self._renewing = asyncio.Lock()
        self._reloading: asyncio.Task[None] | None = None
        self._reload_requested = False
        self._reads_all = False

    def __len__(self) -> int:
        return len(self._listeners)

    def open(self, listener: ListenerConfig) -> "ListenerTls":
        """Read the key and certificates of a listener. Raises ConfigError."""
        from kohort.server.tls.contexts import ListenerTls  # few servers need it

        tls = self._listeners[listener.name.lower()] = ListenerTls(self._config, listener)
        return tls

    def of_nodes(self, listener: str) -> "ssl.SSLContext":
        """The context by which this node connects to a listener of others now."""
        return self._listeners[listener.lower()].for_nodes

    async def close(self) -> None:
        """Read nothing any more. Idempotent."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)

    async def validate(self, names: Iterable[str], config: Config) -> None:
        """Read the files of the listeners `names` by `config`.

        Names are in lower case; those of listeners without TLS have no effect. Raises ConfigError
        for files that cannot replace the current ones.
        """
        await self._read(names, config)

    @asynccontextmanager
    async def renewal(
        self, names: Iterable[str], config: Callable[[], Config]
    ) -> AsyncIterator[None]:
        """Do as `validate`, and use what was read for new connections if the block ends well.

        `config` is called when renewals before this one have ended.
        """
        async with self._renewing:
            read = await self._read(names, config())
            yield
            for tls, keys in read:
                _use(tls, keys)

    def reload(self) -> None:
        """Begin to read the files of all listeners again, for new connections.

        One that cannot be used is logged, and what its listener has stays.
        """
        self._reads_all = True
        self._begin_to_reload()

    def config_changed(self) -> None:
        """Do as `reload` for listeners whose settings are others than those in use."""
        if not all(tls.is_configured_by(self._config) for tls in self._listeners.values()):
            self._begin_to_reload()

    async def reloaded(self) -> None:
        """Return when what `reload` and `config_changed` began has ended."""
        if self._reloading is not None:
            await asyncio.shield(self._reloading)

    def _begin_to_reload(self) -> None:
        self._reload_requested = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        while self._reload_requested:
            async with self._renewing:
                reads_all, self._reads_all, self._reload_requested = self._reads_all, False, False
                for tls in tuple(self._listeners.values()):
                    if reads_all or not tls.is_configured_by(self._config):
                        await self._reload_listener(tls)

    async def _reload_listener(self, tls: "ListenerTls") -> None:
        try:
            keys = await asyncio.to_thread(tls.replacement, self._config)
        except ConfigError as error:
            logger.error(
                "certificate reload failed, keeping the current certificates",
                extra=fields(why=error),
            )
        else:
            _use(tls, keys)

    async def _read(
        self, names: Iterable[str], config: Config
    ) -> list[tuple["ListenerTls", "ServerKeys"]]:
        listeners = [self._listeners[name] for name in names if name in self._listeners]
        return [(tls, await asyncio.to_thread(tls.replacement, config)) for tls in listeners]


def _use(tls: "ListenerTls", keys: "ServerKeys") -> None:
    tls.use(keys)
    logger.info("certificates reloaded", extra=fields(listener=tls.listener))
