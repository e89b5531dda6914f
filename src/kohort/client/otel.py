"""Metrics of clients for OpenTelemetry, as observable instruments. Needs the extra `otel`.

    from kohort.client.otel import register

    async with ConsumerGroup("orders", topics=["orders"]) as group:
        register(group)         # until the group is closed

Names begin with `kohort.client.`. Attributes are `client` (the name given to `register`),
`client_id`, `group`, and those of `kohort.client.metrics`. OpenTelemetry has no observable
histogram: durations are two counters, `….count` and `….sum` (in seconds).
"""

import time
from collections.abc import Callable, Iterable
from typing import Final
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from kohort.client.metrics import (
    FAMILIES,
    Durations,
    Family,
    Kind,
    Measured,
    RegisteredClients,
    group_of,
    samples,
)

__all__ = ["register"]

FRESH_S: Final = 0.5
"""One collection asks each instrument: they share what was read so lately."""

_instruments: Final[WeakKeyDictionary[Meter, "_Instruments"]] = WeakKeyDictionary()


def register(client: Measured, *, name: str | None = None, meter: Meter | None = None) -> None:
    """Observe the metrics of a client that is open, until it is closed.

    `name` is the attribute `client`, by default the kind of client and a number (`group-1`). It has
    to differ from the names of other open clients: else raises ConfigError. `meter` is by default
    the one named `kohort.client` of the global provider.
    """
    chosen_meter = get_meter("kohort.client") if meter is None else meter
    instruments = _instruments.get(chosen_meter)
    if instruments is None:
        instruments = _instruments[chosen_meter] = _Instruments(chosen_meter)
    instruments.clients.add(client, name)


class _Instruments:
    """The instruments of one meter, which observe all its clients."""

    def __init__(self, meter: Meter) -> None:
        self.clients = RegisteredClients()
        self._read_at = float("-inf")
        self._observed: dict[str, list[Observation]] = {}
        for name, family in FAMILIES.items():
            match family.kind:
                case Kind.GAUGE:
                    self._create(meter.create_observable_gauge, name, family)
                case Kind.COUNTER:
                    self._create(meter.create_observable_counter, name, family)
                case Kind.HISTOGRAM:
                    self._create(meter.create_observable_counter, f"{name}.count", family)
                    self._create(meter.create_observable_counter, f"{name}.sum", family)

    def _create(self, create: Callable[..., object], name: str, family: Family) -> None:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return self._read().get(name, [])

        create(f"kohort.client.{name}", callbacks=[observe], description=family.help)

    def _read(self) -> dict[str, list[Observation]]:
        now = time.monotonic()
        if now - self._read_at > FRESH_S:
            self._read_at, self._observed = now, self._fresh()
        return self._observed

    def _fresh(self) -> dict[str, list[Observation]]:
        observations: dict[str, list[Observation]] = {}
        for client, metrics in self.clients.metrics():
            common = {
                "client": client, "client_id": metrics.client_id, "group": group_of(metrics),
            }  # fmt: skip
            for name, labels, value in samples(metrics):
                attributes = common | dict(zip(FAMILIES[name].labels, labels, strict=True))
                for observed, number in _numbers(name, value):
                    observations.setdefault(observed, []).append(Observation(number, attributes))
        return observations


def _numbers(name: str, value: float | Durations) -> Iterable[tuple[str, float]]:
    if isinstance(value, Durations):
        return (f"{name}.count", value.count), (f"{name}.sum", value.total_ms / 1000)
    return ((name, value),)
