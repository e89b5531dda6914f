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
SILENT_SHARE: Final = 0.25
"""Lives of members of our client in groups of the consumer protocol that end without a leave."""
GROWING: Final = "growing"
"""A topic that gets more partitions, which groups of the consumer protocol read."""
MOST_PARTITIONS: Final = 12
GROWTH_SECONDS: Final = (2.0, 8.0)
"""From one partition more to the next."""
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
NICENESS: Final = 10
"""Of clients with threads of their own, which take no time from servers on other machines.

librdkafka's idempotent producer polls without a pause while a response is late.
"""

Protocol = Literal["classic", "consumer"]
BOTH: Final[tuple[Protocol, ...]] = ("classic", "consumer")
ClientName = Literal["confluent", "aiokafka", "kohort"]
CLIENTS: Final[tuple[ClientName, ...]] = ("confluent", "aiokafka", "kohort")


@dataclass(frozen=True)
class ProducerPlan:
    client: ClientName
    idempotent: bool
    grows: bool = False
    life_seconds: tuple[float, float] = LIFE_SECONDS

    @property
    def name(self) -> str:
        return f"producer {self.topic}"

    @property
    def topic(self) -> str:
        if self.grows:
            return GROWING
        return f"{self.client}-{'idempotent' if self.idempotent else 'plain'}"


@dataclass(frozen=True)
class MemberPlan:
    client: ClientName
    group: str
    number: int
    protocols: tuple[Protocol, ...] = ("classic",)
    """Each life draws one of them."""
    life_seconds: tuple[float, float] = MEMBER_SECONDS

    @property
    def name(self) -> str:
        return f"{self.group}/{self.client}-{self.number}"

    @property
    def is_classic(self) -> bool:
        """Whether all members of its group are, so that each assignment has a generation."""
        return self.group not in ("new", "moving")

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(each for each in TOPICS if each != GROWING or "consumer" in self.protocols)


PRODUCERS: Final = (
    *(ProducerPlan(client, kind) for client in CLIENTS for kind in (True, False)),
    ProducerPlan("kohort", True, grows=True),
)
TOPICS: Final = {each.topic: each.idempotent for each in PRODUCERS}
MEMBERS: Final = tuple(
    [MemberPlan(client, client, number) for client in CLIENTS for number in (1, 2)]
    + [MemberPlan(client, "mixed", 1) for client in CLIENTS]
    + [MemberPlan("kohort", "new", number, ("consumer",)) for number in (1, 2)]
    + [MemberPlan("confluent", "new", 1, ("consumer",))]
    # A group that is upgraded, and downgraded whenever both draw the classic protocol.
    + [MemberPlan("kohort", "moving", 1, BOTH), MemberPlan("confluent", "moving", 1, BOTH)]
    + [MemberPlan("aiokafka", "moving", 1)]
)
GROUPS: Final = tuple(dict.fromkeys(each.group for each in MEMBERS))

SERVER_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "4",
    # No log is compacted: each commit is looked up in it.
    "log.cleaner.min.cleanable.ratio": "1.0",
    "num.partitions": str(PARTITIONS),
}
