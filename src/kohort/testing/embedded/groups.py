"""A group of an embedded server, as a test asks for it."""

from collections.abc import Mapping, Sequence

from kohort.testing.embedded import arguments, verbs
from kohort.testing.embedded.fault_handle import FaultHandle
from kohort.testing.embedded.group_state import GroupRebalance, GroupState, Member
from kohort.testing.embedded.running_server import ControlledServer


class GroupReader:
    """Reads a group; each property is read anew."""

    def __init__(self, server: ControlledServer, group_id: str) -> None:
        self._server = server
        self.id = arguments.text("group", group_id)

    def __repr__(self) -> str:
        state = "of a closed Kafka" if self._server.is_closed else self.state
        return f"<{type(self).__name__} {self.id} {state}>"

    def __str__(self) -> str:
        """Everything that is known of the group, in lines."""
        return str(self.read())

    def read(self) -> GroupState:
        """The group as it is now, all fields of one moment."""
        return self._server.run(verbs.read_group, self.id)

    @property
    def state(self) -> str:
        """Kafka's name of its state: Empty, PreparingRebalance, Stable, …; Dead without it."""
        return self.read().state

    @property
    def generation(self) -> int:
        """Its generation, or epoch; -1 if it does not exist."""
        return self.read().generation

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members with their assignments."""
        return self.read().members

    @property
    def committed(self) -> Mapping[tuple[str, int], int]:
        """Committed offsets: `committed["orders", 0]`."""
        return self.read().committed

    @property
    def rebalances(self) -> tuple[GroupRebalance, ...]:
        """Its latest 100 rebalances, oldest first; the last one may be in progress."""
        return self.read().rebalances

    def explain(self) -> str:
        """Why the group is not stable, who is awaited and until when; "" if it is stable."""
        return self.read().explanation

    def start(
        self,
        *,
        members: int | None = None,
        instance_ids: Sequence[str] = (),
        generation: int | None = None,
        topics: Sequence[str] = (),
        committed: Mapping[tuple[str, int], int] | None = None,
        type: str = "classic",
        assignor: str = "range",
        reconciling: bool = False,
        session_timeout_ms: int = 45_000,
    ) -> tuple[str, ...]:
        """Begin with a stable group that has members, a generation and committed offsets.

        `members` is their number, `instance_ids` has the group.instance.id of the first ones, which
        are static. `generation` is the epoch of a group of type consumer. Members subscribe to
        `topics`, by default to those of `committed`. `reconciling`: the last member of a consumer
        group has just joined, and the others have not revoked its partitions.

        The group is loaded from records that its coordinator would write, as after a failover: each
        member has a new session, and no connection. Other groups in its partition of
        `__consumer_offsets` are loaded again, too; their requests in progress get NOT_COORDINATOR.
        Returns the member ids. Raises KohortError for a group that exists or could not be.
        """
        return self._server.run(
            verbs.start_group,
            self.id,
            members=members,
            instance_ids=instance_ids,
            generation=generation,
            topics=topics,
            committed=committed,
            type=type,
            assignor=assignor,
            reconciling=reconciling,
            session_timeout_ms=session_timeout_ms,
        )

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets by topic and partition, for a group without members.

        Raises KafkaError: UNKNOWN_MEMBER_ID if it has members, UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._server.run(verbs.commit, self.id, offsets)

    def evict(self, member_id: str) -> None:
        """Remove a member, as an administrator does; the group rebalances.

        Raises KafkaError: UNKNOWN_MEMBER_ID.
        """
        self._server.run(verbs.evict, self.id, member_id)

    def move_coordinator(self, *, required: bool = True) -> FaultHandle:
        """Respond NOT_COORDINATOR to its requests until a client looks for its coordinator.

        That is what clients see when another node becomes the coordinator. Requests that wait, such
        as a JoinGroup, go on waiting. If no request meets it, it is an error at the end of the test
        unless `required` is false.
        """
        state = self._server.call(verbs.move_coordinator, self.id, required)
        return FaultHandle(self._server, state)
