"""Groups that an embedded server loads from records, to start a test with."""

from kohort.errors import KohortError
from kohort.runtime.group_log import append_records
from kohort.server.config import group_coordinator_config
from kohort.server.replicas import GroupTopics
from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.partitions import find_topic
from kohort.testing.start_states import StartState, start_state


async def start_group(server: EmbeddedServer, group: str, state: StartState) -> tuple[str, ...]:
    """Bring a new group into a state; returns its member ids. Raises KohortError."""
    existing = await server.read_group(group)
    if existing.state != "Dead":
        raise KohortError(f"a group is started before it exists, and {existing}")
    broker, now = server.broker, server.clock.timestamp()
    started = start_state(
        group,
        state,
        GroupTopics(broker.topics, broker.config["broker.rack"]),
        group_coordinator_config(broker.config),
        now,
    )
    topic, number = broker.groups.partition_of(group)
    append_records(find_topic(broker, topic).partitions[number], (started.records,), now)
    await broker.groups.reload(number)
    server.timeline.add(f"group {group} was started with {len(started.member_ids)} members")
    return started.member_ids
