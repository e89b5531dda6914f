"""Renewal of certificates: where files are read, in which order, and what a failure leaves."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from kohort.errors import ConfigError
from kohort.server.config import Config
from kohort.server.tls import Certificates
from server.certificates import Authority

KEYSTORE = "listener.name.ssl.ssl.keystore.location"


class Watched(Config):
    """A configuration that knows in which threads it was read, and can hold up all but the main."""

    def watch(self) -> None:
        self.threads: set[threading.Thread] = set()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def of_listener(self, listener: str, name: str, mechanism: str | None = None) -> Any:
        if hasattr(self, "threads"):
            self.threads.add(threading.current_thread())
            if threading.current_thread() is not threading.main_thread():
                assert self.goes_on.wait(10)
        return super().of_listener(listener, name, mechanism)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def config(authority: Authority) -> Watched:
    return Watched(
        {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(authority.issue("server.pem", common_name="kohort")),
        }
    )


async def test_files_are_read_in_another_thread(config: Watched) -> None:
    certificates = Certificates(config)
    certificates.open(config.listeners[0])
    config.watch()
    certificates.reload()
    await certificates.reloaded()
    await certificates.validate(["ssl"], config)
    async with certificates.renewal(["ssl"], lambda: config):
        pass
    assert config.threads
    assert threading.main_thread() not in config.threads


async def test_listeners_that_are_not_named_are_not_read(config: Watched) -> None:
    certificates = Certificates(config)
    tls = certificates.open(config.listeners[0])
    before = tls.context
    config.watch()
    async with certificates.renewal(["http", "plaintext"], lambda: config):
        pass
    certificates.config_changed()
    await certificates.reloaded()
    assert config.threads == {threading.main_thread()}
    assert tls.context is before


async def test_one_renewal_ends_before_the_next_one_begins(config: Watched) -> None:
    certificates = Certificates(config)
    tls = certificates.open(config.listeners[0])
    config.watch()
    config.goes_on.clear()
    order: list[str] = []

    async def renew(name: str) -> None:
        def wanted() -> Config:
            order.append(f"{name} begins")
            return config

        async with certificates.renewal(["ssl"], wanted):
            order.append(f"{name} ends")

    first = asyncio.create_task(renew("first"))
    await asyncio.sleep(0)
    before = tls.context
    certificates.reload()
    await asyncio.sleep(0)
    certificates.reload()
    second = asyncio.create_task(renew("second"))
    await asyncio.sleep(0)
    assert order == ["first begins"]
    assert tls.context is before
    config.goes_on.set()
    await asyncio.gather(first, second, certificates.reloaded())
    assert order == ["first begins", "first ends", "second begins", "second ends"]


async def test_a_renewal_that_fails_uses_nothing(config: Watched) -> None:
    certificates = Certificates(config)
    tls = certificates.open(config.listeners[0])
    before = tls.context
    with pytest.raises(ZeroDivisionError):
        async with certificates.renewal(["ssl"], lambda: config):
            raise ZeroDivisionError
    missing = config.with_dynamic({KEYSTORE: "/nowhere"}, of_all=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        async with certificates.renewal(["ssl"], lambda: missing):
            raise AssertionError
    assert tls.context is before
    async with certificates.renewal(["ssl"], lambda: config):
        assert tls.context is before
    assert tls.context is not before


async def test_settings_that_change_by_themselves_are_followed(
    config: Watched, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a change is taken back because it did not reach the disk."""
    certificates = Certificates(config)
    tls = certificates.open(config.listeners[0])
    config.on_change.append(certificates.config_changed)
    other = str(authority.issue("other.pem", common_name="kohort"))
    config.set_dynamic({}, {KEYSTORE: other})
    assert not tls.is_configured_by(config)
    await certificates.reloaded()
    assert tls.is_configured_by(config)
    config.set_dynamic({}, {KEYSTORE: "/nowhere"})
    await certificates.reloaded()
    assert not tls.is_configured_by(config)
    assert "certificate reload failed, keeping the current certificates" in caplog.text
    config.set_dynamic({}, {})
    await certificates.reloaded()
    assert tls.is_configured_by(config)


async def test_closing_ends_what_is_in_progress(config: Watched) -> None:
    certificates = Certificates(config)
    await certificates.close()
    tls = certificates.open(config.listeners[0])
    before = tls.context
    config.watch()
    config.goes_on.clear()
    certificates.reload()
    await asyncio.sleep(0)
    await certificates.close()
    config.goes_on.set()
    assert tls.context is before
