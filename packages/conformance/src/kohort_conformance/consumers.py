"""Members of consumer groups (KIP-848) as scenarios play them, with the state of a client library.

A `PlayedConsumer` knows its epoch and its assignment from the responses it got, and fills
heartbeats with them; every field can be said otherwise in the call (`a.beat(member_epoch=7)`). A
field that is not said is left at null, which keeps it. Forms in -ing send and go on, the plain ones
record the response. `settled` sets the scene: a Stable group, unrecorded.

The order in which Kafka gives partitions to members depends on their ids, so a consumer's id is its
client id by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort_conformance.members import NONE, committed
from kohort_conformance.runner import shard_of
from kohort_conformance.stage import Client, Parked, SetUpError, Stage

REBALANCE_MS = 60_000
LEAVES = -1
LEAVES_FOR_A_WHILE = -2
Partitions = Mapping[str, Sequence[int]]
"""Partitions by topic id."""


def owned(partitions: Partitions) -> list[dict[str, Any]]:
    """The TopicPartitions of a heartbeat."""
    return [
        {"topic_id": uuid.UUID(topic), "partitions": listed}
        for topic, listed in partitions.items()
        if listed
    ]


@dataclass
class Beating(Parked):
    """A ConsumerGroupHeartbeat whose response the consumer learns from."""

    consumer: PlayedConsumer

    async def response(self, seconds: float = 20.0) -> dict[str, Any]:
        return self.consumer.learn(await super().response(seconds))

    async def quiet(self, seconds: float = 20.0) -> dict[str, Any]:
        return self.consumer.learn(await super().quiet(seconds))


@dataclass
class PlayedConsumer:
    """One member of one consumer group on its own connection."""

    client: Client
    group: str
    id: str
    names: Sequence[str] | None = None
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    rebalance_ms: int = REBALANCE_MS
    epoch: int = 0
    assigned: dict[str, list[int]] = field(default_factory=dict)

    @property
    def stage(self) -> Stage:
        return self.client.stage

    def learn(self, response: dict[str, Any]) -> dict[str, Any]:
        """Remember the id, epoch and assignment of a response."""
        if response.get("error_code") == NONE and response["member_epoch"] >= 0:
            self.id = response["member_id"]
            self.epoch = response["member_epoch"]
            if (assignment := response["assignment"]) is not None:
                self.assigned = {
                    one["topic_id"]: one["partitions"] for one in assignment["topic_partitions"]
                }
        return response

    def beating(self, version: int = 1, **values: Any) -> Beating:
        """Send a heartbeat at the member's epoch that keeps all else, and go on."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "rebalance_timeout": -1,
            **values,
        }
        parked = self.client.send("ConsumerGroupHeartbeat", version, **request)
        return Beating(parked.stage, parked.call, parked.label, self)

    async def beat(self, version: int = 1, **values: Any) -> dict[str, Any]:
        """As `beating`, recorded."""
        return await self.beating(version, **values).response()

    def joining(self, version: int = 1, **values: Any) -> Beating:
        """Send what joins: everything, at epoch 0, without partitions."""
        return self.beating(version, **{**self._full(), "member_epoch": 0, **values})

    async def join(self, version: int = 1, **values: Any) -> dict[str, Any]:
        """As `joining`, recorded."""
        return await self.joining(version, **values).response()

    def _full(self) -> dict[str, Any]:
        return {
            "instance_id": self.instance,
            "rebalance_timeout": self.rebalance_ms,
            "subscribed_topic_names": self.names,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }

    def acking(self, version: int = 1, **values: Any) -> Beating:
        """Send a heartbeat that says the partitions assigned last."""
        return self.beating(version, **{"topic_partitions": owned(self.assigned), **values})

    async def ack(self, version: int = 1, **values: Any) -> dict[str, Any]:
        """As `acking`, recorded."""
        return await self.acking(version, **values).response()

    async def leave(self, epoch: int = LEAVES, **values: Any) -> dict[str, Any]:
        """Leave for good, or with -2 for a while, recorded."""
        return await self.beat(member_epoch=epoch, **values)

    async def reaches(self, epoch: int, seconds: float = 20.0) -> None:
        """Heartbeat until the member has this epoch or a later one; that response is recorded."""
        heard: list[Beating] = []

        async def is_so() -> bool:
            heard.append(self.beating())
            await heard[-1].quiet()
            return self.epoch >= epoch

        await self.stage.until(f"{self.id} at epoch {epoch}", is_so, seconds)
        await heard[-1].response()

    async def hears(self, error: str, seconds: float = 20.0) -> None:
        """Heartbeat until this error comes, unrecorded."""

        async def is_so() -> bool:
            return bool((await self.beating().quiet())["error_code"] == error)

        await self.stage.until(f"{self.id} hears {error}", is_so, seconds)

    def committing(
        self, topic: str, offsets: Mapping[int, int], version: int = 9, **values: Any
    ) -> Parked:
        """Send OffsetCommit at the member's epoch, or at `epoch`, and go on."""
        request = {
            "group_id": self.group,
            "generation_id_or_member_epoch": values.pop("epoch", self.epoch),
            "member_id": self.id,
            "retention_time": -1,
            "topics": [committed(topic, offsets)],
            **values,
        }
        return self.client.send("OffsetCommit", version, **request)

    async def commit(
        self, topic: str, offsets: Mapping[int, int], version: int = 9, **values: Any
    ) -> dict[str, Any]:
        """As `committing`, recorded."""
        return await self.committing(topic, offsets, version, **values).response()


async def consumer(stage: Stage, client_id: str, *names: str, **values: Any) -> PlayedConsumer:
    """A member to be that subscribes these topics; it has sent nothing."""
    values.setdefault("group", stage.group)
    values.setdefault("id", client_id)
    return PlayedConsumer(await stage.client(client_id), names=names or None, **values)


async def settled(stage: Stage, topic: str, *client_ids: str, **values: Any) -> Any:
    """Members that joined one after the other and have what they shall have, unrecorded.

    With one client id, the member itself, else a list of them.
    """
    members = []
    for client_id in client_ids:
        members.append(await consumer(stage, client_id, topic, **values))
        await joined(members[-1])
        await settle(members)
    return members[0] if len(members) == 1 else members


async def joined(one: PlayedConsumer, **values: Any) -> PlayedConsumer:
    """Have a member join, unrecorded."""
    response = await one.joining(**values).quiet()
    if response["error_code"] != NONE:
        raise SetUpError(f"{one.id} cannot join: {response['error_code']}")
    return one


async def settle(members: Iterable[PlayedConsumer]) -> None:
    """Heartbeat, with what each member has, until nothing changes, unrecorded."""
    members = list(members)
    before = None
    while before != (before := [(one.epoch, one.assigned) for one in members]):
        for one in members:
            response = await one.acking().quiet()
            if response["error_code"] != NONE:
                raise SetUpError(f"{one.id}: {response['error_code']}")


async def show(client: Client, group: str, version: int = 1, **values: Any) -> dict[str, Any]:
    """ConsumerGroupDescribe of one group, recorded."""
    return await client.ask("ConsumerGroupDescribe", version, group_ids=[group], **values)


async def until_described(
    client: Client, group: str, state: str, members: int, seconds: float = 20.0
) -> float:
    """Wait, unrecorded, until the group has this state and so many members; seconds it took."""

    async def is_so() -> bool:
        told = await client.quiet("ConsumerGroupDescribe", 1, group_ids=[group])
        one = told["groups"][0]
        return one["group_state"] == state and len(one["members"]) == members

    return await client.stage.until(f"{state} with {members} members", is_so, seconds)


async def known_topic(stage: Stage, name: str = "topic", partitions: int = 1) -> str:
    """Make a topic, unrecorded, and wait until the coordinator of the scenario's group knows it."""
    topic = await stage.create_topic(name, partitions)
    await wait_until_known(stage, topic, partitions)
    return topic


async def wait_until_known(stage: Stage, topic: str, partitions: int) -> None:
    """Wait until the coordinator of the scenario's group knows all partitions of a topic.

    Kafka tells each shard of new topics after the rest of the broker, so a member of another group
    of the shard asks for them.
    """
    group = same_shard(stage, "probe")
    one = await joined(await consumer(stage, f"probe of {topic}", topic, group=group))

    async def is_known() -> bool:
        await one.acking().quiet()
        return sum(len(listed) for listed in one.assigned.values()) == partitions

    await stage.until(f"{topic} known to the coordinator", is_known)
    await one.beating(member_epoch=LEAVES).quiet()
    await one.client.quiet("DeleteGroups", 2, groups_names=[group])


def same_shard(stage: Stage, name: str) -> str:
    """Another group of the scenario that is in the shard of its own one."""
    number = 0
    while shard_of(f"{stage.group}-{name}-{number}") != shard_of(stage.group):
        number += 1
    group = f"{stage.group}-{name}-{number}"
    stage.groups.add(group)
    return group


async def name_topics(stage: Stage, *topics: str) -> list[str]:
    """Record the ids of topics, so that later steps can tell them apart; returns the ids."""
    client = await stage.client("namer")
    told = await client.quiet("Metadata", 12, topics=[{"name": one} for one in topics])
    ids = {one["name"]: one["topic_id"] for one in told["topics"]}
    stage.note("topics", [{"name": one, "topic_id": ids[one]} for one in topics])
    return [ids[one] for one in topics]


async def named_topic(stage: Stage, name: str = "topic", partitions: int = 1) -> str:
    """A topic that the coordinator knows and whose id is recorded; its name."""
    topic = await known_topic(stage, name, partitions)
    await name_topics(stage, topic)
    return topic


async def named_topics(stage: Stage, *names: str, partitions: int) -> list[str]:
    """As `named_topic`, of several topics."""
    topics = [await known_topic(stage, name, partitions) for name in names]
    await name_topics(stage, *topics)
    return topics
