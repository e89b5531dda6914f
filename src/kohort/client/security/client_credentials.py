"""Tokens for OAUTHBEARER by OAuth's client credentials grant (RFC 6749, section 4.4; KIP-768)."""

import asyncio
import base64
import json
import time
import urllib.parse
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any, Final
from urllib.request import Request

from kohort.client.errors import AuthenticationError
from kohort.errors import ConfigError, KohortError
from kohort.util.https_get import StatusError, fetch

_RENEWED_AT: Final = 0.8
"""Part of a token's lifetime after which the next connection asks for another, as in Java."""
_REFUSED: Final = (400, 401, 403, 404)
"""Statuses that another attempt does not change."""


class ClientCredentials:
    """A `TokenSource`: asks the endpoint for a token, and keeps it for most of its lifetime."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        encode: bool = False,
        timeout_ms: int = 10_000,
    ) -> None:
        """`encode`: form-encode id and secret first, as the RFC requires but not all servers do.

        Raises ConfigError for a URL that is neither https nor, on this machine, http.
        """
        _validate(url)
        name, secret = (
            (urllib.parse.quote_plus(part) if encode else part)
            for part in (client_id, client_secret)
        )
        basic = base64.b64encode(f"{name}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._url = url
        self._request = Request(
            url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        self._timeout_s = timeout_ms / 1000
        self._lock = asyncio.Lock()
        self._token = ""
        self._renew_at_s = 0.0

    async def __call__(self) -> str:
        """A token that is valid now.

        Raises AuthenticationError if the endpoint refuses, else KohortError; both name it.
        """
        async with self._lock:
            if not self._token or time.monotonic() >= self._renew_at_s:
                response = await asyncio.to_thread(self._request_token)
                self._token = str(response["access_token"])
                lifetime_s = response.get("expires_in") or 0
                self._renew_at_s = time.monotonic() + _RENEWED_AT * lifetime_s
            return self._token

    def _request_token(self) -> dict[str, Any]:
        try:
            response = json.loads(fetch(self._request, self._timeout_s))
        except StatusError as error:
            kind = AuthenticationError if error.status in _REFUSED else KohortError
            raise kind(f"token endpoint {self._url}: {error}: {error.text}") from None
        except (OSError, ValueError, HTTPException) as error:
            raise KohortError(f"token endpoint {self._url}: {error!r}") from None
        if not isinstance(response, dict) or not response.get("access_token"):
            raise KohortError(f"token endpoint {self._url} responded without access_token")
        if not isinstance(response.get("expires_in") or 0, int | float):
            reason = "responded with expires_in that is no number"
            raise KohortError(f"token endpoint {self._url} {reason}")
        return response


def _validate(url: str) -> None:
    """Raise ConfigError for a URL that cannot be asked, or would show the secret on the network."""
    scheme, host = _scheme_and_host(url)
    if not host or scheme not in ("https", "http"):
        raise ConfigError(f"token endpoint {url!r} is not a URL such as https://HOST/token")
    if scheme == "http" and not _is_this_machine(host):
        raise ConfigError(
            f"token endpoint {url!r} would get the client's secret over the network unencrypted: "
            "give its https URL; http is only for this machine, such as http://localhost/token"
        )


def _scheme_and_host(url: str) -> tuple[str, str]:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:  # a bracket that is open
        return "", ""


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
