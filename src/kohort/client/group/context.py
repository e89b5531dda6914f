"""The view that the parts of a running member have of `GroupRun`, as a Protocol.

`GroupRun` composes the parts (draining, generation setup, background tasks, leading) and hands
itself to each. A part that needs more than this extends the Protocol in its own module, so no part
imports `GroupRun`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from kohort.client.cluster import Cluster
from kohort.client.config import GroupConfig
from kohort.client.fetch import Fetcher
from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group.topic_watch import TopicWatch
from kohort.types import TopicPartition


class MemberContext(Protocol):
    """State and services of one member that its parts share."""

    config: GroupConfig
    name: str
    """The group id, for log lines and errors."""
    cluster: Cluster
    fetcher: Fetcher
    subscription: MemberSubscription
    watch: TopicWatch
    marked: MarkedCommits
    owned_partitions: dict[TopicPartition, OwnedPartition]

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` until the group is closed. An exception in it ends the membership."""
        ...

    def emit_event(self, what: str, detail: str) -> None:
        """Report an event to the log and to `on_event`."""
        ...

    def fetched(self) -> list[TopicPartition]:
        """The owned partitions that the fetcher reads."""
        ...
