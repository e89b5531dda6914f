"""Periodic tasks of a member: topic check, task check and commits of marked offsets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kohort.client.group.context import MemberContext
from kohort.client.group.generation_handover import GenerationHandover
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group_errors import StuckError
from kohort.client.membership import End
from kohort.errors import KohortError

CHECKS_PER_LIMIT: Final = 10
"""How often the tasks are checked within `max_poll_interval_ms`."""


def start_background_tasks(context: MemberContext, handover: GenerationHandover) -> None:
    """Start the tasks that are configured; they run until the group is closed."""
    config = context.config
    if config.partition_watch_interval_ms:
        context.tasks.spawn(
            _every(config.partition_watch_interval_ms, lambda: check_topics(context)),
            "watches topics",
        )
    if interval_ms := config.marked_commit_interval_ms:
        context.tasks.spawn(_every(interval_ms, lambda: _commit_marked(context)), "commits")
    if config.max_poll_interval_ms is not None:
        limit_ms = config.max_poll_interval_ms
        context.tasks.spawn(
            _every(
                max(limit_ms // CHECKS_PER_LIMIT, 1),
                lambda: _check_tasks(context, handover, limit_ms),
            ),
            "watches tasks",
        )


async def _every(ms: int, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(ms / 1_000)
        await do()


async def check_topics(context: MemberContext) -> None:
    """Report changes of topics to the membership. An unreachable cluster counts as no change."""
    topics = (
        None if context.watch.has_pattern else {*context.subscription.topics, *context.watch.counts}
    )
    fetched = context.fetched()
    try:
        metadata = await context.cluster.metadata(topics)
    except KohortError as error:
        context.events.emit_event("topics", f"could not be checked: {error}")
        return
    changes = context.watch.compare(
        metadata,
        subscribed=context.subscription.topics,
        owned=fetched,
        is_leader=context.membership.is_leader,
    )
    if changes.topics is not None:
        context.subscription.topics = changes.topics
    if changes.lost:
        context.watch.forget({tp.topic for tp in changes.lost})
        context.events.emit_event("topics", changes.lost_because)
        context.member.dispatch(context.membership.lose, changes.lost, changes.lost_because)
    elif changes.rebalance:
        context.events.emit_event("topics", changes.rebalance)
        context.member.dispatch(context.membership.rejoin, changes.rebalance)


async def _commit_marked(context: MemberContext) -> None:
    try:
        await context.marked.commit()
    except KohortError as error:
        context.events.emit_event("commit failed", f"{error}; retrying at the next interval")


async def _check_tasks(context: MemberContext, handover: GenerationHandover, limit_ms: int) -> None:
    """End the membership if a task is stuck, or if no code asks for the generation."""
    now = asyncio.get_running_loop().time()
    for owned in context.owned_partitions.values():
        since = owned.busy_since
        if (
            since is not None
            and owned.ending.end is not End.LOST
            and now - since >= limit_ms / 1_000
        ):
            handover.give_up(_stuck(owned, now - since, limit_ms))
            return
    if handover.unclaimed_for_s >= limit_ms / 1_000:
        handover.give_up(
            StuckError(
                f"a generation of group {context.name} has waited "
                f"{handover.unclaimed_for_s:.1f} s to be requested: continue with "
                "`async for generation in group`, or leave the group"
            )
        )


def _stuck(owned: OwnedPartition, seconds: float, limit_ms: int) -> StuckError:
    where = "; ".join(owned.tasks.stacks()) or "no task of its own"
    return StuckError(
        f"{owned.partition} is stuck: {owned.busy_with} has been worked on for {seconds:.1f} s, "
        f"longer than max_poll_interval_ms ({limit_ms}). Its tasks are at: {where}. "
        "The member left the group, so that others continue. Raise max_poll_interval_ms if this is "
        "how long a batch takes, or make batches smaller (max_partition_fetch_bytes)"
    )
