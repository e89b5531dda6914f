"""The topics, groups and timing of a chaos run."""

from dataclasses import dataclass
from typing import Final, Literal

PARTITIONS: Final = 3
"""Of each topic: the range assignor gives every member of the largest group some of each."""
RECORDS_A_SECOND: Final = 60
"""By each producer."""
UNACKNOWLEDGED: Final = 200
"""Most records that a producer sends without knowing their outcome."""
LIFE_SECONDS: Final = (3.0, 12.0)
"""After such a time a producer is closed, and the next one begins."""
MEMBER_SECONDS: Final = (6.0, 40.0)
"""The same for members: most kills meet groups that are stable."""
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500

ClientName = Literal["confluent", "aiokafka", "kohort"]
CLIENTS: Final[tuple[ClientName, ...]] = ("confluent", "aiokafka", "kohort")


@dataclass(frozen=True)
class ProducerPlan:
    client: ClientName
    idempotent: bool

    @property
    def topic(self) -> str:
        return f"{self.client}-{'idempotent' if self.idempotent else 'plain'}"


@dataclass(frozen=True)
class MemberPlan:
    client: ClientName
    group: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.group}/{self.client}-{self.number}"


PRODUCERS: Final = tuple(ProducerPlan(client, kind) for client in CLIENTS for kind in (True, False))
TOPICS: Final = {each.topic: each.idempotent for each in PRODUCERS}
MEMBERS: Final = tuple(
    [MemberPlan(client, client, number) for client in CLIENTS for number in (1, 2)]
    + [MemberPlan(client, "mixed", 1) for client in CLIENTS]
)
GROUPS: Final = tuple(dict.fromkeys(each.group for each in MEMBERS))

SERVER_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    # No log is compacted: each commit is looked up in it.
    "log.cleaner.min.cleanable.ratio": "1.0",
    "num.partitions": str(PARTITIONS),
}
