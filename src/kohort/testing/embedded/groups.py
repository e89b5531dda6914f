"""A group of an embedded server, as a test asks for it."""

from collections.abc import Mapping

from kohort.testing.embedded import arguments, verbs
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

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets by topic and partition, for a group without members.

        Raises KafkaError: UNKNOWN_MEMBER_ID if it has members, UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._server.run(verbs.commit, self.id, offsets)
