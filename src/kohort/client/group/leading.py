"""What the leader of a generation does: it divides the partitions among the members."""

from typing import TYPE_CHECKING

from kohort.client.group.topic_watch import topics_for_assignor
from kohort.client.membership import Assign

if TYPE_CHECKING:
    from kohort.client.group.run import GroupRun


async def assignment_for(run: "GroupRun", assign: Assign) -> dict[str, bytes]:
    """The assignment by member id, with the topics as they are now. Raises KohortError, and what an
    own assignor does.

    The topics of all members count, not just this one's own.
    """
    topics = sorted(run.subscription.topics_of(assign.members))
    metadata = await run.cluster.metadata(topics)
    run.watch.remember(metadata, topics, run.fetched())
    return run.subscription.assign(
        assign.protocol, topics_for_assignor(metadata, topics), assign.members
    )
