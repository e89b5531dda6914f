"""Faults: requests that an embedded server refuses, delays, or whose connection it cuts.

    kafka.fail("OffsetCommit", error="NOT_COORDINATOR", times=2, group="billing")

A fault meets the requests of its APIs that match it, until it has met `times` of them. Requests
meet the faults in the order in which they were set, each at most one.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Final, TypeAlias, TypedDict

from kohort.errors import ErrorCode, KohortError
from kohort.protocol.apis import APIS, Api
from kohort.protocol.message_classes import load_request_schema
from kohort.server.net import Dispatch, Exchange
from kohort.testing.embedded import arguments
from kohort.testing.embedded.error_responses import REFUSABLE, error_response
from kohort.testing.embedded.exchanges import CutExchange, TruncatedExchange
from kohort.util.text import join_names

Served: TypeAlias = Coroutine[Any, Any, None] | None
"""What still has to run until a request has ended."""


_BY_NAME: Final = {api.kafka_name: api for api in APIS.values()}


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A request that met a fault."""

    dispatch: Dispatch
    exchange: Exchange
    frame: bytes
    body_at: int
    request: Any
    """The decoded request."""
    stopping: asyncio.Event
    """Set when the server stops."""

    def serve(self, exchange: Exchange | None = None) -> Served:
        """Have the server handle it."""
        return self.dispatch(exchange or self.exchange, self.frame, self.body_at)


class Which(TypedDict, total=False):
    """Which requests of its API meet a fault: arguments of `Fault`."""

    times: int | None
    group: str | None
    client_id: str | None
    when: Callable[[Any], bool] | None
    required: bool


@dataclass(eq=False, slots=True)
class Fault:
    """One fault; `met` counts the requests that it has met."""

    apis: tuple[Api, ...]
    """The APIs whose requests meet it."""
    effect: Callable[[Intercepted], Served]
    text: str
    """What it does to a request, for the timeline."""
    times: int | None = 1
    """Number of requests that it meets; None: all."""
    group: str | None = None
    client_id: str | None = None
    when: Callable[[Any], bool] | None = None
    """Predicate of a decoded request, which has the fields of Kafka's schema in snake case."""
    required: bool = True
    """Whether a test fails if no request has met it."""
    met: int = 0
    number: int = 0
    """Number of the fault on its server, from 1."""
    subject: str = ""
    """What meets it, if that is not the requests of one API."""
    until: Api | None = None
    """A request of this API for the same group ends it, after it was met."""
    error: str | None = None
    """What `when` raised; the fault meets no further request after it."""

    def __post_init__(self) -> None:
        """Raises KohortError for arguments of the wrong kind."""
        if self.times is not None:
            arguments.whole("times", self.times, least=1)
        if self.client_id is not None:
            arguments.text("client_id", self.client_id)
        if self.when is not None:
            arguments.function("when", self.when)
        if self.group is not None:
            arguments.text("group", self.group)
            for api in self.apis:
                if not names_groups(api):
                    raise KohortError(f"group={self.group!r}: no {api.kafka_name} names a group")

    def __str__(self) -> str:
        narrowed = "".join(
            f" {name}={value}"
            for name, value in (("group", self.group), ("client_id", self.client_id))
            if value is not None
        )
        subject = self.subject or ", ".join(api.kafka_name for api in self.apis)
        return f"{subject}{narrowed} {self.text}"

    def state(self) -> "FaultState":
        """The fault at this moment."""
        return FaultState(
            number=self.number,
            text=str(self),
            required=self.required,
            met=self.met,
            error=self.error,
        )

    @property
    def is_spent(self) -> bool:
        """Whether it meets no further request."""
        return self.error is not None or (self.times is not None and self.met >= self.times)

    def concerns(self, api_key: int) -> bool:
        """Whether a request of this API may meet or end it."""
        return not self.is_spent and any(
            api is not None and api.key == api_key for api in (*self.apis, self.until)
        )

    def ends_with(self, exchange: Exchange, request: Any) -> bool:
        """Whether a request ends it."""
        return (
            self.until is not None
            and exchange.api_key == self.until.key
            and self.met > 0
            and self.group in groups_of(request)
        )

    def matches(self, exchange: Exchange, request: Any) -> bool:
        """Whether a request of its API meets it; no request does if `when` raises."""
        if self.client_id is not None and exchange.client_id != self.client_id:
            return False
        if self.group is not None and self.group not in groups_of(request):
            return False
        try:
            return self.when is None or bool(self.when(request))
        except Exception as error:  # of the test, which fails by it
            self.error = repr(error)
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """A fault at one moment."""

    number: int
    """Number of the fault on its server, from 1."""
    text: str
    """Its requests, and what it does to them."""
    required: bool
    met: int
    """How many requests have met it."""
    error: str | None
    """What its `when` raised."""


class Faults:
    """The faults of a server, in the order in which they were set."""

    def __init__(self, on_met: Callable[[Fault, Exchange], None]) -> None:
        self._faults: list[Fault] = []
        self._on_met = on_met
        self._numbers = count(1)
        self.begin()

    def add(self, fault: Fault) -> "FaultState":
        fault.number = next(self._numbers)
        self._faults.append(fault)
        return fault.state()

    def states(self) -> list["FaultState"]:
        """All faults, in the order in which they were set."""
        return [fault.state() for fault in self._faults]

    def remove(self, numbers: Sequence[int] | None) -> None:
        """Remove the faults with these numbers, or all."""
        self._faults = [
            fault for fault in self._faults if numbers is not None and fault.number not in numbers
        ]

    def begin(self) -> None:
        """The server is about to start."""
        self.stopping = asyncio.Event()

    def end(self) -> None:
        """The server is about to stop: requests that wait for a fault are dropped."""
        self.stopping.set()

    def concern(self, api_key: int) -> bool:
        """Whether a request of this API may meet a fault."""
        return any(fault.concerns(api_key) for fault in self._faults)

    def meet(self, exchange: Exchange, request: Any) -> Fault | None:
        """The fault that this request meets, which is counted; None if it meets none."""
        for fault in self._faults:
            if not fault.concerns(exchange.api_key):
                continue
            if fault.ends_with(exchange, request):
                fault.times = fault.met
            elif all(api.key != exchange.api_key for api in fault.apis):
                continue
            elif fault.matches(exchange, request):
                fault.met += 1
                self._on_met(fault, exchange)
                return fault
        return None


def verify(faults: Iterable[FaultState]) -> None:
    """Raise AssertionError for a required fault that no request has met, or whose `when` raised."""
    unmet = []
    for fault in faults:
        if fault.error is not None:
            raise AssertionError(f"when of the fault {fault.text} raised {fault.error}")
        if fault.required and not fault.met:
            unmet.append(fault.text)
    if unmet:
        raise AssertionError(f"faults that no request has met (required=True): {'; '.join(unmet)}")


_GROUP_FIELDS: Final = ("groups", "group_ids", "groups_names")
_NAMES_GROUPS: Final = ("group_id", *_GROUP_FIELDS, "key_type")
_GROUP_KEY: Final = 0
"""`key_type` of a FindCoordinator for groups."""


def names_groups(api: Api) -> bool:
    """Whether requests of an API name groups, in one of the versions that are served."""
    versions = (api.min_version, api.max_version)
    schemas = (load_request_schema(api.key, version) for version in versions)
    names = {field.name for schema in schemas for field in fields(schema)}
    return not names.isdisjoint(_NAMES_GROUPS)


def groups_of(request: Any) -> frozenset[str]:
    """The groups that a request names."""
    named = [request.group_id] if hasattr(request, "group_id") else []
    for name in _GROUP_FIELDS:
        entries = getattr(request, name, None) or ()
        named += (getattr(entry, "group_id", entry) for entry in entries)
    if getattr(request, "key_type", None) == _GROUP_KEY:
        named += getattr(request, "coordinator_keys", None) or [getattr(request, "key", "")]
    return frozenset(named)


def find_api(name: str) -> Api:
    """The API of Kafka's name. Raises KohortError."""
    return _BY_NAME[arguments.one_of("API", name, _BY_NAME)]


def find_error(name: str) -> ErrorCode:
    """The error code of Kafka's name. Raises KohortError."""
    names = {code.name.upper(): code for code in ErrorCode if code}
    return names[arguments.one_of("error", name, names)]


def refusal(api: Api, error: ErrorCode) -> Callable[[Intercepted], Served]:
    """Respond with an error instead of handling the request. Raises KohortError."""
    if api.name not in REFUSABLE:
        names = join_names(
            (each.kafka_name for each in APIS.values() if each.name in REFUSABLE), 99
        )
        raise KohortError(
            f"{api.kafka_name} cannot be failed with an error, but can be delayed or dropped. "
            f"These can be failed: {names}"
        )
    return refusing(error)


def refusing(error: ErrorCode) -> Callable[[Intercepted], Served]:
    """Respond with an error, for APIs of `REFUSABLE`."""

    def refuse(met: Intercepted) -> Served:
        exchange = met.exchange
        if getattr(met.request, "acks", -1) == 0:  # Kafka has no response, and closes
            exchange.close_with_reason("a Produce request without acks was refused")
        else:
            exchange.respond(error_response(exchange.api_key, exchange.version, met.request, error))
        return None

    return refuse


def delaying(seconds: float) -> Callable[[Intercepted], Served]:
    """Handle the request after so many seconds of the server's time.

    The connection is cut if the server stops before.
    """

    async def delay(met: Intercepted) -> None:
        try:
            await asyncio.wait_for(met.stopping.wait(), seconds)
        except TimeoutError:
            later = met.serve()
            if later is not None:
                await later
        else:
            CutExchange.of(met.exchange).cut()

    return delay


def cutting(*, applied: bool) -> Callable[[Intercepted], Served]:
    """Cut the connection instead of the response; `applied`: after handling the request."""

    def cut(met: Intercepted) -> Served:
        exchange = CutExchange.of(met.exchange)
        if applied:
            return met.serve(exchange)
        exchange.cut()
        return None

    return cut


def truncating(met: Intercepted) -> Served:
    """Handle the request, send the first half of the response, and close the connection."""
    return met.serve(TruncatedExchange.of(met.exchange))


def throttling(seconds: float) -> Callable[[Intercepted], Served]:
    """Handle the request, and throttle its client for so many seconds, as a quota does."""

    def throttle(met: Intercepted) -> Served:
        met.exchange.throttle(round(seconds * 1_000))
        return met.serve()

    return throttle
