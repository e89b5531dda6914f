"""The work of all members, whatever their library: count flights and delays at a visible pace.

A member is slow on purpose: every partition is spread over the show, so that there is something to
see. One that falls behind, because a partition had no owner for a while, catches up at full speed.
The show sets the pace, and holds it while it waits for the group: on a busy machine all takes
longer, and nothing is left out.

A member says on stdout, one JSON line for each batch, what it processed:

    {"partition": 3, "first": 1200, "next": 1350, "at": 81.25, "carriers": {"UA": [150, 148, 1790]}}

`carriers` has flights, flights that left, and their minutes of delay. A batch is said before it is
committed, and a commit is always at the end of a batch: the next owner of the partition starts
at the beginning of one.
"""

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kohort_demo.flights import departure_delay

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500
COMMIT_INTERVAL_MS = 1_500
"""As often offsets are committed: what a killed member did since then is done again."""
FETCH_BYTES = 16_384
"""Of a partition at a time: small fetches, so that all partitions move on together."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The share of each partition that is due by now, 0 to 1, in a file that the show writes."""

    path: Path

    def set(self, share: float) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(str(share))
        new.replace(self.path)  # a reader never sees half of it

    def due(self, end: int) -> int:
        """The offset that a partition with this end should have reached."""
        return int(end * float(self.path.read_text()))


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of a member."""

    bootstrap: str
    group: str
    topic: str
    client_id: str
    pace: Pace

    def arguments(self) -> list[str]:
        return [self.bootstrap, self.group, self.topic, self.client_id, str(self.pace.path)]

    @classmethod
    def told(cls) -> Self:
        """From the command line."""
        bootstrap, group, topic, client_id, pace = sys.argv[1:]
        return cls(bootstrap, group, topic, client_id, Pace(Path(pace)))


def count(values: Iterable[bytes | None]) -> dict[str, tuple[int, int, int]]:
    """Per carrier: flights, flights that left, minutes of delay."""
    counts: dict[str, tuple[int, int, int]] = {}
    for value in values:
        if value is not None:
            carrier, delay = departure_delay(value)
            flights, left, minutes = counts.get(carrier.decode(), (0, 0, 0))
            counts[carrier.decode()] = (
                flights + 1,
                left + (delay is not None),
                minutes + (delay or 0),
            )
    return counts


def say(
    partition: int, first: int, following: int, carriers: dict[str, tuple[int, int, int]]
) -> None:
    told = {
        "partition": partition,
        "first": first,
        "next": following,
        "at": time.monotonic(),
        "carriers": carriers,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
