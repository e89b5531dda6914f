"""What an administrator sees of groups and their offsets, in Kafka's words."""

from dataclasses import dataclass, field
from typing import Final

from kohort.errors import KohortError
from kohort.types import GroupId, InstanceId, MemberId, TopicPartition

CONSUMER: Final = "consumer"
"""The protocol type of consumers' groups; "" is a group that only ever had offsets committed."""
GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
GROUP_TYPES: Final = ("Classic", "Consumer")
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
"""States in which offsets may be changed from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group as its coordinator lists it."""

    group: GroupId
    protocol_type: str
    state: str
    """"" from brokers that do not say (ListGroups below v4)."""
    type: str
    """`Classic` or `Consumer` (KIP-848); brokers that do not say have only classic ones."""
    coordinator: int
    """Node id of the broker that listed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups of all brokers that answered, by name, and what became of the others."""

    groups: tuple[GroupListing, ...]
    failures: dict[int, KohortError] = field(default_factory=dict)
    """Node id → why it did not answer: its groups are missing from the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member and what it was assigned."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] | None
    """None: not a consumer's, or its bytes cannot be read."""
    topics: tuple[str, ...] | None
    """What it subscribed to; None while the group rebalances (the coordinator does not tell) and as
    above.
    """
    owned: tuple[TopicPartition, ...] = ()
    """What it said it owned when it joined (KIP-429)."""
    rack: str | None = None
    epoch: int | None = None
    """Member epoch, of groups with the `Consumer` protocol only."""
    target: tuple[TopicPartition, ...] | None = None
    """What the coordinator wants it to have in the end, of groups with the `Consumer` protocol
    only.
    """

    @property
    def name(self) -> str:
        """For people: the member id, and where it runs."""
        return f"{self.member_id} ({self.client_id} at {self.client_host})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator describes it."""

    group: GroupId
    state: str
    """`Dead`: there is no such group."""
    protocol_type: str
    assignor: str
    """The protocol that was chosen, "" when there is none."""
    members: tuple[MemberDescription, ...]
    coordinator: int
    coordinator_address: str
    """HOST:PORT."""
    type: str = "Classic"
    epoch: int | None = None
    """Group epoch, of groups with the `Consumer` protocol only."""
    assignment_epoch: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != "Dead"
