"""The input of the server's assignors: members with their old target assignments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kohort.types import InstanceId

Target: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Topic id -> partitions of one member. Both are ordered as in the record of the assignment."""

Topics: TypeAlias = Mapping[UUID, int]
"""Topic id -> number of partitions."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to by name and by regular expression."""

    topic_ids: tuple[UUID, ...]
    """Topics that exist, in Kafka's order (`subscription`)."""
    names: int
    """Number of subscribed topics, existing or not."""


class MemberSpec(NamedTuple):
    """One member of a group whose target assignment is computed."""

    subscription: Subscription
    target: Target
    """Its old target assignment, or that of the static member that it replaces."""
    instance_id: InstanceId | None = None
