"""Periodic tasks of a member: topic check, task check and commits of marked offsets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from kohort.client.group.context import MemberContext
from kohort.client.group.member import GroupMember
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group_errors import GroupError, StuckError
from kohort.client.membership import AnyMembership, End
from kohort.errors import KohortError

CHECKS_PER_LIMIT: Final = 10
"""How often the tasks are checked within `max_poll_interval_ms`."""


class SupervisedMember(MemberContext, Protocol):
    """The member as its background tasks see it."""

    membership: AnyMembership
    member: GroupMember

    @property
    def unclaimed_for_s(self) -> float:
        """Seconds for which a generation has waited to be requested; 0 if none waits."""
        ...

    def give_up(self, error: GroupError) -> None:
        """Leave the group at once and raise `error` to the application."""
        ...


def start_background_tasks(run: SupervisedMember) -> None:
    """Start the tasks that are configured; they run until the group is closed."""
    config = run.config
    if config.partition_watch_interval_ms:
        run.spawn(
            _every(config.partition_watch_interval_ms, lambda: check_topics(run)),
            "watches topics",
        )
    if interval_ms := config.marked_commit_interval_ms:
        run.spawn(_every(interval_ms, lambda: _commit_marked(run)), "commits")
    if config.max_poll_interval_ms is not None:
        limit_ms = config.max_poll_interval_ms
        run.spawn(
            _every(max(limit_ms // CHECKS_PER_LIMIT, 1), lambda: _check_tasks(run, limit_ms)),
            "watches tasks",
        )


async def _every(ms: int, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(ms / 1_000)
        await do()


async def check_topics(run: SupervisedMember) -> None:
    """Report changes of topics to the membership. An unreachable cluster counts as no change."""
    topics = None if run.watch.has_pattern else {*run.subscription.topics, *run.watch.counts}
    held = run.fetched()
    try:
        metadata = await run.cluster.metadata(topics)
    except KohortError as error:
        run.emit_event("topics", f"could not be looked at: {error}")
        return
    changes = run.watch.compare(
        metadata, subscribed=run.subscription.topics, held=held, is_leader=run.membership.is_leader
    )
    if changes.topics is not None:
        run.subscription.topics = changes.topics
    if changes.lost:
        run.watch.forget({each.topic for each in changes.lost})
        run.emit_event("topics", changes.lost_because)
        run.member.dispatch(run.membership.lose, changes.lost, changes.lost_because)
    elif changes.rebalance:
        run.emit_event("topics", changes.rebalance)
        run.member.dispatch(run.membership.rejoin, changes.rebalance)


async def _commit_marked(run: SupervisedMember) -> None:
    try:
        await run.marked.commit()
    except KohortError as error:
        run.emit_event("commit failed", f"{error}; tried again with the next interval")


async def _check_tasks(run: SupervisedMember, limit_ms: int) -> None:
    """End the membership if a task is stuck, or if no code asks for the generation."""
    now = asyncio.get_running_loop().time()
    for owned in run.owned_partitions.values():
        since = owned.busy_since
        if (
            since is not None
            and owned.ending.end is not End.LOST
            and now - since >= limit_ms / 1_000
        ):
            run.give_up(_stuck(owned, now - since, limit_ms))
            return
    if run.unclaimed_for_s >= limit_ms / 1_000:
        run.give_up(
            StuckError(
                f"group {run.name} has had a generation for {run.unclaimed_for_s:.1f} s that "
                "nobody asked for: go on with "
                "`async for generation in group`, or leave the group"
            )
        )


def _stuck(owned: OwnedPartition, seconds: float, limit_ms: int) -> StuckError:
    where = "; ".join(owned.tasks.stacks()) or "no task of its own"
    return StuckError(
        f"{owned.partition} is stuck: {owned.busy_with} has been worked on for {seconds:.1f} s, "
        f"longer than max_poll_interval_ms ({limit_ms}). Its tasks stand at: {where}. "
        "The member left the group, so that others go on. Raise max_poll_interval_ms if this is "
        "how long a batch takes, or make batches smaller (max_partition_fetch_bytes)"
    )
