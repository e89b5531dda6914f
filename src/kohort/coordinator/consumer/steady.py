"""The heartbeat without changes of a member that has reached its target.

It is the most frequent request of a consumer group. It logs nothing and only moves the deadline of
the session.
"""

from typing import NamedTuple

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup, MemberState
from kohort.coordinator.topics import TopicsView
from kohort.types import Instant

_STABLE = int(MemberState.STABLE)


class SteadyHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat without any optional field."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    client_id: str
    client_host: str


def keep_alive(
    group: ConsumerGroup,
    request: SteadyHeartbeat,
    topics: TopicsView,
    config: GroupCoordinatorConfig,
    now: Instant,
) -> int | None:
    """The heartbeat interval in ms for the response, None if the heartbeat may have an effect."""
    _, member_id, epoch, instance_id, client_id, client_host = request
    member = group.members.get(member_id)
    if (
        member is None
        or epoch != member.current.epoch
        or epoch != group.target_epoch
        or epoch != group.epoch
        or member.current.state != _STABLE
        or member.metadata.classic is not None
        or group.checked_version != topics.version
        or group.regex_members
        or (instance_id is not None and instance_id != member.metadata.instance_id)
        or client_id != member.metadata.client_id
        or client_host != member.metadata.client_host
    ):
        return None
    settings = config.consumer_group(group.id)
    session = group.sessions[member_id]
    deadline = now + settings.session_timeout_ms
    if session.timer is None or session.timer > deadline or not session.is_told:
        return None
    session.deadline = Instant(deadline)
    return settings.heartbeat_interval_ms
