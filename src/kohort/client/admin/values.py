"""Descriptions of groups and their members, in Kafka's words."""

from dataclasses import dataclass, field
from typing import Final

from kohort.errors import KohortError
from kohort.types import GroupId, InstanceId, MemberId, TopicPartition

CONSUMER: Final = "consumer"
"""Protocol type of consumer groups; "" is a group that only had offsets committed."""
GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
CLASSIC: Final = "Classic"
"""Type of a group of the classic protocol."""
GROUP_TYPES: Final = (CLASSIC, "Consumer")
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
"""States in which offsets may be changed from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as its coordinator lists it."""

    group: GroupId
    protocol_type: str
    state: str
    """"" from brokers that do not report it (ListGroups below v4)."""
    type: str
    """`Classic` or `Consumer` (KIP-848); brokers that do not report it have only classic groups."""
    coordinator: int
    """Node id of the broker that listed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups of all brokers that responded, by name, and the errors of the others."""

    groups: tuple[GroupListing, ...]
    failures: dict[int, KohortError] = field(default_factory=dict)
    """Error by node id; the groups of these brokers are missing from the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member and its assignment."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] | None
    """None: not a consumer's, or its bytes cannot be read."""
    topics: tuple[str, ...] | None
    """Subscribed topics; None during a rebalance, when the coordinator does not report them."""
    topic_regex: str | None = None
    """Subscribed regular expression; only in groups with the `Consumer` protocol."""
    owned: tuple[TopicPartition, ...] = ()
    """Partitions that it reported to own when it joined (KIP-429)."""
    rack: str | None = None
    epoch: int | None = None
    """Member epoch; only in groups with the `Consumer` protocol."""
    target: tuple[TopicPartition, ...] | None = None
    """Target assignment; only in groups with the `Consumer` protocol."""

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
    """The protocol that the group chose; "" if there is none."""
    members: tuple[MemberDescription, ...]
    coordinator: int
    coordinator_address: str
    """HOST:PORT."""
    type: str = "Classic"
    epoch: int | None = None
    """Group epoch; only in groups with the `Consumer` protocol."""
    assignment_epoch: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != "Dead"
