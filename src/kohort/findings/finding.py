"""A finding: what a rule says about a group."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

SEVERITIES: Final = ("info", "warning", "error")
"""From the least. `info`: to know; `warning`: to mend; `error`: data is lost, or will be soon."""
MOST_EVIDENCE: Final = 20
"""Positions of a finding: the first and the last ones."""


class Position(NamedTuple):
    """A record of the log."""

    log_partition: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. It is the same one as another with the same `key`."""

    id: str
    """Of the rule, in `catalogue`."""
    group: str
    subject: str
    """A client, a topic, a partition as `orders-3`; "": the group."""
    since: datetime
    """Time of the first record that shows it."""
    until: datetime
    """Latest time at which it was so: `at`, if it goes on."""
    severity: str
    text: str
    """A sentence with numbers, and then what to do."""
    evidence: tuple[Position, ...] = ()
    """Records of the log that show it."""

    @property
    def key(self) -> tuple[str, str, str, datetime]:
        return self.group, self.id, self.subject, self.since


def shortened(evidence: list[Position]) -> tuple[Position, ...]:
    """At most MOST_EVIDENCE positions, in the order of the log."""
    ordered = sorted(set(evidence))
    if len(ordered) <= MOST_EVIDENCE:
        return tuple(ordered)
    half = MOST_EVIDENCE // 2
    return (*ordered[:half], *ordered[-half:])
