"""What a test waits for in a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.coordinator.classic import State
from kohort.coordinator.consumer.group import ConsumerGroupState
from kohort.errors import KohortError
from kohort.testing.embedded import arguments
from kohort.testing.embedded.group_state import GroupState

_STATES: Final = {*map(str, State), *map(str, ConsumerGroupState)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The fields that are not None have to hold together. Raises KohortError for wrong ones."""

    state: str | None
    members: int | None
    """Number of members."""
    committed: Mapping[tuple[str, int], int] | None
    """Offsets that have to be among the committed ones."""

    def __post_init__(self) -> None:
        if self.state is None and self.members is None and self.committed is None:
            raise KohortError("wait for something: wait(state=…, members=…, committed=…)")
        if self.state is not None:
            arguments.one_of("state", self.state, _STATES)
        if self.members is not None:
            arguments.whole("members", self.members, least=0)
        if self.committed is not None:
            arguments.offsets(self.committed)

    def holds(self, group: GroupState) -> bool:
        """Whether the group meets it."""
        return (
            (self.state is None or group.state == self.state)
            and (self.members is None or len(group.members) == self.members)
            and (self.committed is None or self._is_committed(group.committed))
        )

    def _is_committed(self, committed: Mapping[tuple[str, int], int]) -> bool:
        assert self.committed is not None
        return all(committed.get(key) == offset for key, offset in self.committed.items())

    def __str__(self) -> str:
        named = {"state": self.state, "members": self.members, "committed": self.committed}
        return " ".join(f"{name}={value}" for name, value in named.items() if value is not None)

    def failure(self, group: GroupState, timeout_s: float) -> AssertionError:
        """The error after waiting in vain."""
        return AssertionError(
            f"group {group.group} did not reach {self} within {timeout_s:g} s\n{group}"
        )
