"""Waits for a group, for tests that cannot hand over a predicate."""

from collections.abc import Mapping

from kohort.testing.embedded.advancing import advance_until as advance_until_true
from kohort.testing.embedded.conditions import Condition
from kohort.testing.embedded.embedded_kafka import WAIT_TIMEOUT_S, Group
from kohort.testing.embedded.group_state import GroupState
from kohort.testing.embedded.running_server import ControlledServer


def wait(
    server: ControlledServer,
    group: str,
    state: str | None = None,
    members: int | None = None,
    committed: Mapping[tuple[str, int], int] | None = None,
    timeout: float = WAIT_TIMEOUT_S,
) -> GroupState:
    """Wait until the group has this state, number of members and committed offsets.

    `timeout` is in seconds of the machine's clock. Raises AssertionError after it: the text has the
    members, who is awaited, and the rebalances.
    """
    return Group(server, group).wait(
        state=state, members=members, committed=committed, timeout=timeout
    )


def advance_until(
    server: ControlledServer,
    group: str,
    state: str | None = None,
    members: int | None = None,
    committed: Mapping[tuple[str, int], int] | None = None,
    at_most_seconds: float = 3_600,
) -> GroupState:
    """Advance from timer to timer until the group has this state, members and committed offsets.

    Raises AssertionError after `at_most_seconds` of the server's time.
    """
    condition = Condition(state=state, members=members, committed=committed)
    reader = Group(server, group)
    advance_until_true(server, lambda: condition.holds(reader.read()), at_most_seconds)
    return reader.read()
