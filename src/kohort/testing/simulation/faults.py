"""Faults as data: what goes wrong, where, when and for how long."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal, TypeAlias, get_args

from kohort.errors import KohortError

FaultKind: TypeAlias = Literal[
    "cut",
    "lose request",
    "lose response",
    "partition",
    "slow network",
    "slow disk",
    "pause",
    "crash",
    "power loss",
    "restart",
    "clock jump",
]
SERVER: Final = "kafka"
"""Name of the server as the target of a fault."""

WEIGHTS: Final[Mapping[FaultKind, float]] = {
    "cut": 4,
    "lose request": 3,
    "lose response": 5,
    "partition": 3,
    "slow network": 2,
    "slow disk": 2,
    "pause": 3,
    "crash": 3,
    "power loss": 2,
    "restart": 1,
    "clock jump": 1,
}
"""How often each kind of fault happens, in proportion."""

_OF_SERVER: Final = frozenset({"power loss", "restart", "slow disk"})
_OF_SERVER_TOO: Final = frozenset({"pause", "crash", "clock jump"})
_APIS: Final = (
    "Produce", "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat",
    "TxnOffsetCommit", "EndTxn", None, None, None, None,
)  # fmt: skip
"""APIs of messages that are lost; None: of whichever is next."""
_MAX_S: Final[Mapping[FaultKind, float]] = {
    "partition": 60.0,
    "slow network": 30.0,
    "slow disk": 60.0,
    "pause": 60.0,
    "crash": 20.0,
    "power loss": 10.0,
    "clock jump": 3_600.0,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Its text is the Python expression that makes it."""

    at_s: float
    """Simulated time."""
    kind: FaultKind
    target: str
    """Name of a program of the scenario, or `kafka`."""
    seconds: float = 0.0
    """How long it lasts; until a crashed process starts again; how far the clock jumps."""
    api: str | None = None
    """API of a lost message, by Kafka's name; None: any."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise KohortError(
                f"no fault {self.kind!r}: use one of {', '.join(get_args(FaultKind))}"
            )
        if (self.kind in _OF_SERVER) and self.target != SERVER:
            raise KohortError(f"the fault {self.kind!r} has the target {SERVER!r} alone")
        if self.target == SERVER and self.kind not in _OF_SERVER | _OF_SERVER_TOO:
            raise KohortError(f"the fault {self.kind!r} has a program as its target")

    def __str__(self) -> str:
        api = f" of {self.api}" if self.api else ""
        lasts = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.kind}{api}: {self.target}{lasts}"

    def __repr__(self) -> str:
        arguments = f"{self.at_s!r}, {self.kind!r}, {self.target!r}"
        if self.seconds:
            arguments += f", {self.seconds!r}"
        return f"Fault({arguments}{f', api={self.api!r}' if self.api else ''})"

    def shorter(self) -> "Fault | None":
        """The same fault for half as long; None if it cannot be much shorter."""
        if self.seconds < 1:
            return None
        return replace(self, seconds=round(self.seconds / 2, 3))


def random_faults(
    random: Random,
    start_s: float,
    seconds: float,
    programs: Sequence[str],
    *,
    per_minute: float,
    weights: Mapping[FaultKind, float] = WEIGHTS,
) -> list[Fault]:
    """Random faults of that period, in order."""
    kinds = [kind for kind in weights if programs or kind in _OF_SERVER | _OF_SERVER_TOO]
    faults = []
    at_s = start_s
    while per_minute and kinds:
        at_s += random.expovariate(per_minute / 60)
        if at_s >= start_s + seconds:
            break
        kind = random.choices(kinds, [weights[kind] for kind in kinds])[0]
        faults.append(_random_fault(random, round(at_s, 3), kind, programs))
    return faults


def _random_fault(random: Random, at_s: float, kind: FaultKind, programs: Sequence[str]) -> Fault:
    if kind in _OF_SERVER:
        target = SERVER
    elif kind in _OF_SERVER_TOO:
        target = random.choice([SERVER, *programs])
    else:
        target = random.choice(programs)
    longest_s = _MAX_S.get(kind, 0.0)
    # Short ones are more frequent: most timeouts are shorter than a minute.
    seconds = round(longest_s * random.random() ** 2, 3)
    if kind == "clock jump":
        seconds *= random.choice([-1, 1])
    api = random.choice(_APIS) if kind.startswith("lose") else None
    return Fault(at_s, kind, target, seconds, api)
