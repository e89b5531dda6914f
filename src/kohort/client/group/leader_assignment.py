"""Computes the assignment when this member leads the generation."""

from kohort.client.group.context import MemberContext
from kohort.client.group.topic_watch import topics_for_assignor
from kohort.client.membership import Assign


async def assignment_for(context: MemberContext, assign: Assign) -> dict[str, bytes]:
    """The assignment by member id, computed from fresh metadata of all members' topics.

    Raises KohortError, and any exception of an assignor that the application supplied.
    """
    topics = sorted(context.subscription.topics_of(assign.members))
    metadata = await context.cluster.metadata(topics)
    context.watch.remember(metadata, topics, context.fetched())
    return context.subscription.assign(
        assign.protocol, topics_for_assignor(metadata, topics), assign.members
    )
