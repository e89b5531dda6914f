"""Keys of tokens: when they are fetched, and from where."""

import asyncio
from http.client import BadStatusLine
from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.server.sasl.jwks import Jwks, validate_url
from security.tokens import jwks, public_jwk
from server.handlers.bench import HandClock

URL = "https://issuer.test/keys"


class Issuer:
    """An issuer whose keys change."""

    def __init__(self) -> None:
        self.fetched = 0
        self.names = ["1"]
        self.error: Exception | None = None

    def fetch(self, url: str) -> bytes:
        assert url == URL
        self.fetched += 1
        if self.error is not None:
            raise self.error
        return jwks(*(public_jwk("rsa", kid=name) for name in self.names)).encode()


async def until_fetched(issuer: Issuer, times: int) -> None:
    async with asyncio.timeout(60):
        while issuer.fetched < times:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_an_unknown_key_is_fetched_once_in_a_minute() -> None:
    issuer, clock = Issuer(), HandClock()
    keys = Jwks(URL, 3_600_000, clock, fetch=issuer.fetch)
    await keys.start()
    assert (issuer.fetched, len(keys.keys)) == (1, 1)
    issuer.names.append("2")
    keys.ask_for("2")
    await until_fetched(issuer, 2)
    keys.ask_for("2")
    await keys.close()
    assert issuer.fetched == 2
    clock.ms += 60_000
    keys.ask_for("2")
    await until_fetched(issuer, 3)
    await keys.close()


async def test_a_key_that_the_issuer_has_taken_back_is_forgotten() -> None:
    issuer, clock = Issuer(), HandClock()
    keys = Jwks(URL, 20, clock, fetch=issuer.fetch)
    await keys.start()
    assert keys.keys.find("1", "RS256") is not None
    issuer.names = ["2"]
    await until_fetched(issuer, 3)
    assert keys.keys.find("1", "RS256") is None
    assert keys.keys.find("2", "RS256") is not None
    await keys.close()


async def test_many_unknown_keys_are_not_many_fetches() -> None:
    issuer = Issuer()
    keys = Jwks(URL, 3_600_000, HandClock(), fetch=issuer.fetch)
    await keys.start()
    for number in range(100):
        keys.ask_for(str(number))
        await asyncio.sleep(0)
        await keys.close()
    assert issuer.fetched <= 1 + 16


@pytest.mark.parametrize(
    "error", [OSError("unreachable"), ValueError("no JSON"), BadStatusLine("no HTTP")]
)
async def test_a_fetch_that_fails_leaves_the_keys(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    keys = Jwks(URL, 20, HandClock(), fetch=issuer.fetch)
    await keys.start()
    issuer.error = error
    await until_fetched(issuer, 3)
    await keys.close()
    assert len(keys.keys) == 1
    assert "cannot fetch the JWKS" in caplog.text


async def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks(public_jwk("rsa", kid="1")))
    keys = Jwks(path.as_uri(), 3_600_000, HandClock())
    await keys.start()
    await keys.close()
    assert keys.keys.find("1", "RS256") is not None


@pytest.mark.parametrize("url", ["http://issuer.test/keys", "ftp://x/y", "keys.json", URL + "2"])
def test_only_urls_of_the_list_are_allowed(url: str) -> None:
    validate_url(URL, (URL,))
    with pytest.raises(ConfigError):
        validate_url(url, (URL, *([] if url.startswith("https") else [url])))
