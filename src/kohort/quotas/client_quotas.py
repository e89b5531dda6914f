"""The quotas of clients, and the throttle times of clients that exceed them.

`QuotaTable` stores the quotas, `ClientQuotas` measures their use.

Only the most specific quota counts: (user, client id), (user, default), user, (default, client id),
(default, default), default user, client id, default client id. Clients that match it by the same
names share it: the quota of a user is shared by all clients of the user, while a default for users
applies to each user separately.

Source: ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager of Kafka.
"""

import hashlib
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from kohort.quotas.entities import CLIENT_ID, IP, USER, QuotaEntity
from kohort.quotas.rates import Rate, TokenBucket, Windows
from kohort.types import Instant

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
_MUTATION_RATE: Final = "controller_mutation_rate"
_CONNECTION_RATE: Final = "connection_creation_rate"

MAX_SHARES: Final = 20_000
"""Maximum number of users, and of client ids, whose use is stored; the oldest are removed first.

Clients choose their ids: many ids must not displace the use of a user.
"""
MAX_NAME_LENGTH: Final = 249
"""Maximum length of a stored name; a longer name is stored as a digest."""
MAX_REQUEST_THROTTLE_MS: Final = 1000
"""Maximum throttle time for request time: one window, as in Kafka."""

_WINDOWS: Final = Windows()
_FEW: Final = 1_000

_Name: TypeAlias = str | None
_Address: TypeAlias = IPv4Address | IPv6Address | str
_ABSENT: Final = ""
_Share: TypeAlias = tuple[str, str, str]
"""(key, user, client id) of the clients that share a quota; "" for any."""


class Limit(NamedTuple):
    """The quota of one client."""

    share: _Share
    bound: float
    is_of_any_client_id: bool
    """Whether a client gets a separate quota for each client id."""


class QuotaTable:
    """The configured quotas of each entity."""

    def __init__(self) -> None:
        self.entities: dict[QuotaEntity, Mapping[str, float]] = {}
        """Entities with quotas."""
        self.meters_requests = False
        """Whether any entity has a quota of request time."""
        self._bounds: dict[str, dict[tuple[_Name, _Name], float]] = {}
        self._of_addresses: dict[_Address | None, float] = {}

    def replace(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Replace the quotas of the entity."""
        self.entities.pop(entity, None)
        if quotas:
            self.entities[entity] = quotas
        names = dict(entity)
        if IP in names:
            name = names[IP]
            address = None if name is None else _address(name)
            self._of_addresses.pop(address, None)
            if _CONNECTION_RATE in quotas:
                self._of_addresses[address] = quotas[_CONNECTION_RATE]
            return
        scope = names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT)
        for key in self._bounds.keys() | quotas.keys():
            bounds = self._bounds.setdefault(key, {})
            bounds.pop(scope, None)
            if key in quotas:
                bounds[scope] = quotas[key]
            if not bounds:
                del self._bounds[key]
        self.meters_requests = REQUEST_PERCENTAGE in self._bounds

    def has(self, key: str) -> bool:
        """Whether any user or client id has such a quota."""
        return key in self._bounds

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The quota of a client, None if it has none."""
        bounds = self._bounds.get(key)
        if bounds is None:
            return None
        for scope in (
            (user, client_id),
            (user, None),
            (user, _ABSENT),
            (None, client_id),
            (None, None),
            (None, _ABSENT),
            (_ABSENT, client_id),
            (_ABSENT, None),
        ):
            if (bound := bounds.get(scope)) is not None:
                of_user, of_client = scope
                share = (
                    key,
                    _ABSENT if of_user == _ABSENT else _shortened(user),
                    _ABSENT if of_client == _ABSENT else _shortened(client_id),
                )
                return Limit(share, bound, of_client is None)
        return None

    def connection_rate(self, host: str) -> float | None:
        """Connections per second that an IP address may make, None if there is no limit."""
        rates = self._of_addresses
        return rates.get(_address(host), rates.get(None)) if rates else None


class ClientQuotas:
    """The use of quotas by clients; it is kept when a quota changes."""

    def __init__(self, table: QuotaTable, windows: Windows = _WINDOWS) -> None:
        self.table = table
        self._windows = windows
        self._usage = _Usage()
        self._used_by_client_ids = _Usage()

    def throttle_ms(self, key: str, user: str, client_id: str, value: float, now: Instant) -> int:
        """Record that a client used `value` bytes. Returns its throttle time in ms, 0 for none."""
        limit = self.table.limit(key, user, client_id)
        if limit is None:
            return 0
        rate = self._rate(limit, now)
        rate.record(value, now)
        return rate.throttle_ms(limit.bound, now)

    def refund(self, key: str, user: str, client_id: str, value: float, now: Instant) -> None:
        """Undo the recording of a value at `now`."""
        limit = self.table.limit(key, user, client_id)
        if limit is not None:
            self._rate(limit, now).record(-value, now)

    def request_throttle_ms(self, user: str, client_id: str, seconds: float, now: Instant) -> int:
        """Record request time of a client. Returns its throttle time in ms, at most 1,000."""
        percent = seconds * 100
        wait = self.throttle_ms(REQUEST_PERCENTAGE, user, client_id, percent, now)
        return min(wait, MAX_REQUEST_THROTTLE_MS)

    def largest_fetch(self, user: str, client_id: str) -> float | None:
        """Maximum size of a Fetch response in bytes that the client's quota allows."""
        limit = self.table.limit(CONSUMER_BYTE_RATE, user, client_id)
        if limit is None:
            return None
        return limit.bound * (self._windows.number - 1) * self._windows.size_ms / 1000

    def mutations(self, user: str, client_id: str, *, strict: bool) -> "MutationQuota | None":
        """The quota of a client that creates and deletes partitions, None if it has none.

        `strict` is for request versions with THROTTLING_QUOTA_EXCEEDED.
        """
        limit = self.table.limit(_MUTATION_RATE, user, client_id)
        return None if limit is None else MutationQuota(self, limit, strict=strict)

    def _rate(self, limit: Limit, now: Instant) -> Rate:
        usage = self._usage_of(limit).of(limit.share, now, lambda: Rate(self._windows))
        assert isinstance(usage, Rate)
        return usage

    def bucket(self, limit: Limit, now: Instant) -> TokenBucket:
        """The tokens of the clients that share a quota of mutations."""
        usage = self._usage_of(limit).of(
            limit.share, now, lambda: TokenBucket(self._windows, limit.bound, now)
        )
        assert isinstance(usage, TokenBucket)
        return usage

    def _usage_of(self, limit: Limit) -> "_Usage":
        return self._used_by_client_ids if limit.is_of_any_client_id else self._usage


class _Usage:
    """The use of quotas, by clients that share one."""

    def __init__(self) -> None:
        self._usage: dict[_Share, Rate | TokenBucket] = {}
        self._sweep_at = _FEW

    def of(
        self, share: _Share, now: Instant, new: Callable[[], Rate | TokenBucket]
    ) -> Rate | TokenBucket:
        """The use by clients that share a quota; `new` creates an unused one."""
        usage = self._usage.get(share)
        if usage is None:
            if len(self._usage) >= self._sweep_at:
                self._sweep(now)
            usage = self._usage[share] = new()
        return usage

    def _sweep(self, now: Instant) -> None:
        """Remove idle entries."""
        self._usage = {
            share: usage for share, usage in self._usage.items() if not usage.is_idle(now)
        }
        if len(self._usage) >= MAX_SHARES:
            oldest = list(islice(self._usage, len(self._usage) - MAX_SHARES // 2))
            for share in oldest:
                del self._usage[share]
        self._sweep_at = min(max(_FEW, 2 * len(self._usage)), MAX_SHARES)


def _address(name: str) -> _Address:
    """`name` as an address: an IPv6 address has several spellings."""
    try:
        return ip_address(name)
    except ValueError:
        return name


def _shortened(name: str) -> str:
    """Short key for a name, because clients choose ids of up to 32,767 bytes."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


class MutationQuota:
    """The partitions that one request may create and delete (KIP-599)."""

    def __init__(self, quotas: ClientQuotas, limit: Limit, *, strict: bool) -> None:
        self._quotas = quotas
        self._limit = limit
        self._strict = strict
        self._throttle_ms = 0

    def admits(self, partitions: int, now: Instant) -> bool:
        """Whether this number of partitions may be created or deleted now; if so, it is recorded.

        One change may exceed the remaining quota; the next one must wait.
        """
        bucket, bound = self._quotas.bucket(self._limit, now), self._limit.bound
        if self._strict and (wait := bucket.throttle_ms(bound, now)):
            self._throttle_ms = wait
            return False
        bucket.spend(partitions, bound, now)
        return True

    def throttle_ms(self, now: Instant) -> int:
        """Time that the client must wait after its response, in ms."""
        if self._strict:
            return self._throttle_ms
        return self._quotas.bucket(self._limit, now).throttle_ms(self._limit.bound, now)
