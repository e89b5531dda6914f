"""One classic group: its logged part, its soft part, and the state derived from the two.

The last synced generation of a group, `ClassicGroup`, and its committed offsets are logged. Only
`Shard.replay` writes them. All else is soft state, which is lost with the process: a
`MemberSession` for each member, the pending ids of the member-id handshake (KIP-394), and at most
one `Round`, the current rebalance.

The state is derived, never stored:

| logged group | round | state |
|---|---|---|
| none, nor offsets | none | Dead: such a group is not in the shard |
| no members | none | Empty |
| any | joining | PreparingRebalance |
| any | syncing | CompletingRebalance |
| members | none | Stable |

`Group.sessions` always has the current members. During a round they are ahead of the logged group,
which gets them when the round is synced.

Source: Kafka's ClassicGroup, ClassicGroupMember and ClassicGroupState.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.pending_members import PendingMembers
from kohort.coordinator.records import GroupMetadataValue, MemberMetadata
from kohort.coordinator.rounds import Round
from kohort.errors import ErrorCode
from kohort.types import Instant

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_ALIKE: Final = ("protocols", "client_id", "session_timeout_ms", "rebalance_timeout_ms")


class State(StrEnum):
    """A classic group's state, and what each request gets in it."""

    EMPTY = "Empty"
    """No members, perhaps offsets.

    - join: member added, or id assigned → PreparingRebalance
    - sync, heartbeat, leave: UNKNOWN_MEMBER_ID
    - commit with generation -1: stored
    - delete, or the last offset expired → Dead
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: waits for every member to rejoin.

    - join: parked
    - sync, heartbeat: REBALANCE_IN_PROGRESS
    - commit of the generation before: stored
    - leave: removed
    - all joined, or timeout → CompletingRebalance
    - no members left → Empty
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The sync phase: waits for the leader's assignment.

    - follower's sync: parked
    - leader's sync → Stable
    - heartbeat: no error
    - commit: REBALANCE_IN_PROGRESS
    - join with the same protocols: the same response again
    - join with other protocols, join of a new member, leave, expiry → PreparingRebalance
    """

    STABLE = "Stable"
    """Every member can have its assignment.

    - sync: its assignment
    - heartbeat: no error
    - commit: stored
    - follower's unchanged join: current generation
    - join of the leader, of a changed or a new member, leave, expiry → PreparingRebalance
    """

    DEAD = "Dead"
    """Does not exist, or has another coordinator."""


# Checked for every commit; the lookup of an enum's member takes as long as a call.
_EMPTY: Final = State.EMPTY
_STABLE: Final = State.STABLE

VALID_PREVIOUS_STATES: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.DEAD, State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset({State.EMPTY}),
}
"""Maps each state to the states that precede it.

A replayed record may also enter Empty and Stable from Dead.
"""


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """The last synced or Empty generation, from its GroupMetadata record."""

    value: GroupMetadataValue
    members: Mapping[str, MemberMetadata] = field(repr=False, compare=False)
    """The members by id."""
    downgraded: bool = field(default=False, compare=False)
    """Whether this record ended a consumer group: no leader has assigned partitions yet.

    Not compared: compaction may remove the records between the end of the consumer group and a
    later generation.
    """

    @classmethod
    def of(cls, value: GroupMetadataValue, *, downgraded: bool = False) -> "ClassicGroup":
        members = {member.member_id: member for member in value.members}
        return cls(value, members, downgraded)


@dataclass(slots=True, kw_only=True)
class MemberSession:
    """The soft state of one member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    deadline: Instant = field(default=Instant(0))
    """Time at which the session expires unless a request of the member moves it."""
    timer: Instant | None = None
    """Time at which its timer fires.

    It may be earlier than the deadline: heartbeats move only the latter.
    """
    is_new: bool = False
    """True until its first join gets a response: it cannot send heartbeats before that."""

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for `protocol`, b"" if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.protocols)


class Group:
    """One group of the shard."""

    TYPE: ClassVar = "classic"

    __slots__ = (
        "id",
        "instances",
        "logged",
        "offsets",
        "pending",
        "round",
        "sessions",
        "supported",
        "unsynced",
    )

    def __init__(self, group_id: str, offsets: CommittedOffsets | None = None) -> None:
        self.id = group_id
        self.logged: ClassicGroup | None = None
        self.offsets = CommittedOffsets() if offsets is None else offsets
        self.sessions: dict[str, MemberSession] = {}
        self.instances: dict[str, str] = {}
        """Instance id → member id of the static members."""
        self.pending = PendingMembers()
        self.round: Round | None = None
        self.unsynced: set[str] = set()
        """Members without a SyncGroup in the current generation."""
        self.supported: Counter[str] = Counter()
        """Protocol name → number of members that offer it."""

    def __repr__(self) -> str:
        return (
            f"<Group {self.id} {self.state} gen={self.generation} members={len(self.sessions)} "
            f"leader={self.leader} offsets={len(self.offsets)}>"
        )

    # --- derived ---

    @property
    def is_empty(self) -> bool:
        return self.state is _EMPTY

    @property
    def state(self) -> State:
        if self.round is not None:
            return State.PREPARING_REBALANCE if self.round.joining else State.COMPLETING_REBALANCE
        return _STABLE if self.logged is not None and self.logged.members else _EMPTY

    @property
    def exists(self) -> bool:
        """False for a group without records and soft state."""
        return bool(
            self.logged
            or self.offsets
            or self.offsets.pending
            or self.round
            or self.pending
            or self.sessions
        )

    @property
    def generation(self) -> int:
        if self.round is not None:
            return self.round.generation
        return 0 if self.logged is None else self.logged.value.generation

    @property
    def protocol_type(self) -> str:
        """The protocol type; "" for a group with offsets only (a simple group)."""
        if self.round is not None:
            return self.round.protocol_type
        return "" if self.logged is None else self.logged.value.protocol_type

    @property
    def protocol(self) -> str | None:
        """The protocol that the members of the current generation agreed on."""
        if self.round is not None:
            return self.round.protocol
        return None if self.logged is None else self.logged.value.protocol

    @property
    def leader(self) -> str | None:
        if self.round is not None:
            return self.round.leader
        return None if self.logged is None else self.logged.value.leader

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' rebalance timeouts, 0 without members."""
        return max((session.rebalance_timeout_ms for session in self.sessions.values()), default=0)

    # --- members ---

    def add_session(self, session: MemberSession) -> None:
        self._share_values(session)
        self.sessions[session.member_id] = session
        self.supported.update(session.protocol_names)
        if session.instance_id is not None:
            self.instances[session.instance_id] = session.member_id

    def remove_session(self, member_id: str) -> MemberSession | None:
        session = self.sessions.pop(member_id, None)
        if session is None:
            return None
        self._withdraw(session.protocol_names)
        if session.instance_id is not None and self.instances.get(session.instance_id) == member_id:
            del self.instances[session.instance_id]
        self.unsynced.discard(member_id)
        return session

    def _share_values(self, session: MemberSession) -> None:
        # Members of a group mostly have equal values: they share one copy.
        other = next(iter(self.sessions.values()), session)
        for name in _ALIKE:
            value = getattr(other, name)
            if value == getattr(session, name):
                setattr(session, name, value)

    def update_protocols(
        self, session: MemberSession, protocols: tuple[tuple[str, bytes], ...]
    ) -> None:
        if protocols == session.protocols:
            return
        self._withdraw(session.protocol_names)
        session.protocols = protocols
        self.supported.update(session.protocol_names)

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Kafka's ClassicGroup.validateMember: FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID or none."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.sessions else ErrorCode.unknown_member_id

    # --- the protocol vote ---

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all current members offer one of these protocols, so that the member may join."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(
            self._offered_by_all(name) for name in names
        )

    def select_protocol(self) -> str:
        """The protocol with most votes; each member votes for its first one that all support.

        In a tie the first name to reach the number of votes wins, in the order of joining.
        """
        candidates = {name for name in self.supported if self._offered_by_all(name)}
        if len(candidates) == 1:
            return candidates.pop()
        votes: Counter[str] = Counter()
        for session in self.sessions.values():
            candidate = next((name for name, _ in session.protocols if name in candidates), None)
            if candidate is not None:
                votes[candidate] += 1
        return max(votes, key=votes.__getitem__)

    def _withdraw(self, names: Iterable[str]) -> None:
        self.supported.subtract(names)
        for name in names:
            if not self.supported[name]:
                # Clients choose these names; unused names must not accumulate.
                del self.supported[name]

    def _offered_by_all(self, name: str) -> bool:
        return self.supported[name] == len(self.sessions)
