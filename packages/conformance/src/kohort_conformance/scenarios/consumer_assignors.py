"""What the assignors of consumer groups make of members, topics and the target before.

Kafka's results depend on the order of its hash maps, so members have ids of the scenario's own, and
topics are made until their ids have an order that the results do not depend on by chance.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kohort_conformance.consumers import (
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    settle,
    wait_until_known,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage

CANDIDATES = 6
"""How many topics are made to choose one from."""


async def targets(stage: Stage, label: str, *topics: str) -> None:
    """Note the target of each member: partitions by the letter of their topic, t, u and v."""
    client = await stage.client("watcher")
    told = (await client.quiet("ConsumerGroupDescribe", 1, group_ids=[stage.group]))["groups"][0]
    letters = dict(zip(topics or [stage.topic], "tuv", strict=False))
    noted: dict[str, Any] = {"assignor_name": told["assignor_name"]}
    for one in sorted(told["members"], key=lambda each: each["member_id"]):
        noted[one["member_id"]] = {
            letters[topic["topic_name"]]: sorted(topic["partitions"])
            for topic in one["target_assignment"]["topic_partitions"]
        }
    stage.note(label, noted)


def bucket(topic_id: str) -> int:
    """The place of an id in a small hash map of Java."""
    number = uuid.UUID(topic_id).int
    code = 0
    for shift in (96, 64, 32, 0):
        code ^= number >> shift & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


def rank(topic_id: str) -> int:
    """The place of an id among ids, which Kafka compares as signed numbers."""
    high = uuid.UUID(topic_id).int >> 64
    return high - (1 << 64) if high >> 63 else high


async def topics_in_order(stage: Stage, *partitions: int) -> list[str]:
    """Topics of so many partitions, each after the one before in hash maps and by id."""
    client = await stage.client("topic maker")
    ids: dict[str, str] = {}
    while (chosen := chain(ids, len(partitions))) is None:
        names = [stage.topic_named(f"{len(ids) + one}") for one in range(CANDIDATES)]
        asked = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        made = await client.quiet("CreateTopics", 7, topics=asked, timeout=10_000)
        ids.update({one["name"]: one["topic_id"] for one in made["topics"]})
    for name, count in zip(chosen, partitions, strict=True):
        await grow(client, name, count)
        await wait_until_known(stage, name, count)
    return list(chosen)


def chain(ids: Mapping[str, str], length: int) -> tuple[str, ...] | None:
    """So many topics that each come after the one before, if there are."""
    ordered = sorted(ids, key=lambda name: rank(ids[name]))
    for chosen in itertools.combinations(ordered, length):
        buckets = [bucket(ids[name]) for name in chosen]
        if all(one < other for one, other in itertools.pairwise(buckets)):
            return chosen
    return None


async def unborn(stage: Stage, *client_ids: str, **values: Any) -> list[PlayedConsumer]:
    """Members that have joined and subscribe the scenario's topic, which does not exist yet."""
    return [await joined(await consumer(stage, one, stage.topic, **values)) for one in client_ids]


async def born(stage: Stage, members: Sequence[PlayedConsumer], partitions: int) -> None:
    """The topic is made, and a first target with it."""
    epoch = max(one.epoch for one in members)
    await known_topic(stage, partitions=partitions)

    async def assigned() -> bool:
        await members[0].acking().quiet()
        return members[0].epoch > epoch

    await stage.until("a target with the topic", assigned)
    await settle(members)


@scenario
async def uniform_from_nothing(stage: Stage) -> None:
    """Seven partitions for three members that have none."""
    members = await unborn(stage, "a", "b", "c")
    await targets(stage, "before")
    await born(stage, members, 7)
    await targets(stage, "after")


@scenario
async def uniform_many_from_nothing(stage: Stage) -> None:
    """Twenty-three partitions for nine members that have none."""
    members = await unborn(stage, *(f"member-{number}" for number in range(9)))
    await born(stage, members, 23)
    await targets(stage, "after")


@scenario
async def uniform_more_members_than_partitions(stage: Stage) -> None:
    """Two partitions for four members."""
    members = await unborn(stage, "a", "b", "c", "d")
    await born(stage, members, 2)
    await targets(stage, "after")


@scenario
async def uniform_one_joins(stage: Stage) -> None:
    """A member more: each of the others gives as little as it can."""
    members = await unborn(stage, "a", "b")
    await born(stage, members, 7)
    await targets(stage, "two")
    members.append(await joined(await consumer(stage, "c", stage.topic)))
    await targets(stage, "three")
    await settle(members)
    await targets(stage, "settled")


@scenario
async def uniform_one_leaves(stage: Stage) -> None:
    """A member less: what it had is shared."""
    members = await unborn(stage, "a", "b", "c")
    await born(stage, members, 7)
    await targets(stage, "three")
    await members.pop().beating(member_epoch=-1).quiet()
    await settle(members)
    await targets(stage, "two")


@scenario
async def uniform_one_by_one(stage: Stage) -> None:
    """Twelve members join one by one, and leave in another order."""
    topic = await known_topic(stage, partitions=17)
    members: list[PlayedConsumer] = []
    for number in range(12):
        members.append(await joined(await consumer(stage, f"member-{number}", topic)))
        await settle(members)
        await targets(stage, f"{number + 1} members")
    for number in (3, 0, 7, 1, 5):
        await members.pop(number).beating(member_epoch=-1).quiet()
        await settle(members)
        await targets(stage, f"{len(members)} members")


@scenario
async def uniform_settles_late(stage: Stage) -> None:
    """Members that join before the others have given up anything."""
    topic = await known_topic(stage, partitions=12)
    members: list[PlayedConsumer] = []
    for name in ("first", "second", "third", "fourth", "fifth"):
        members.append(await joined(await consumer(stage, name, topic)))
        await targets(stage, name)
    await settle(members)
    await targets(stage, "settled")


@scenario
async def uniform_of_three_topics(stage: Stage) -> None:
    """Members that all subscribe three topics, one after the other."""
    topics = await topics_in_order(stage, 4, 3, 2)
    members: list[PlayedConsumer] = []
    for name in ("a", "b", "c", "d"):
        members.append(await joined(await consumer(stage, name, *topics)))
        await settle(members)
        await targets(stage, name, *topics)
    await members.pop(0).beating(member_epoch=-1).quiet()
    await settle(members)
    await targets(stage, "a left", *topics)


@scenario
async def uniform_of_topics_each(stage: Stage) -> None:
    """Members that subscribe two of three topics each."""
    t, u, v = await topics_in_order(stage, 4, 4, 2)
    members: list[PlayedConsumer] = []
    for name, named in (("a", (t, u)), ("b", (u, v)), ("c", (t, v))):
        members.append(await joined(await consumer(stage, name, *named)))
        await settle(members)
        await targets(stage, name, t, u, v)
    await members.pop(1).beating(member_epoch=-1).quiet()
    await settle(members)
    await targets(stage, "b left", t, u, v)


@scenario
async def uniform_is_balanced_again(stage: Stage) -> None:
    """One member has all of two topics, then others come for one of them each."""
    t, u = await topics_in_order(stage, 10, 10)
    b = await joined(await consumer(stage, "b", t, u))
    await settle([b])
    await targets(stage, "b alone", t, u)
    a = await joined(await consumer(stage, "a", t))
    await targets(stage, "a", t, u)
    c = await joined(await consumer(stage, "c", u))
    await targets(stage, "c", t, u)
    await settle([a, b, c])
    await targets(stage, "settled", t, u)


@scenario
async def uniform_of_unequal_members(stage: Stage) -> None:
    """Eight members with different subscriptions come and change them."""
    t, u, v = await topics_in_order(stage, 9, 5, 12)
    members: list[PlayedConsumer] = []
    for number in range(8):
        subscribed = [(t,), (t, u), (u, v), (t, u, v)][number % 4]
        members.append(await joined(await consumer(stage, f"member-{number}", *subscribed)))
        await settle(members)
        await targets(stage, f"{number + 1} members", t, u, v)
    for number, subscribed in ((0, (t, u, v)), (3, (v,)), (5, (t, v))):
        await members[number].beating(subscribed_topic_names=subscribed).quiet()
        await settle(members)
        await targets(stage, f"member {number} changed", t, u, v)


@scenario
async def range_of_two_topics(stage: Stage) -> None:
    """Contiguous partitions of each topic by the order of the ids."""
    t, u = await topics_in_order(stage, 3, 4)
    members: list[PlayedConsumer] = []
    for name in ("b", "a", "c"):
        members.append(await joined(await consumer(stage, name, t, u, assignor="range")))
        await settle(members)
        await targets(stage, name, t, u)
    await members.pop(0).beating(member_epoch=-1).quiet()
    await settle(members)
    await targets(stage, "b left", t, u)


@scenario
async def range_of_unequal_members(stage: Stage) -> None:
    """Static members come first, each topic goes to who subscribes it."""
    t, u = await topics_in_order(stage, 3, 4)
    a = await joined(await consumer(stage, "a", t, u, assignor="range"))
    b = await joined(await consumer(stage, "b", t, assignor="range"))
    c = await joined(await consumer(stage, "c", u, assignor="range", instance="i1"))
    await settle([a, b, c])
    await targets(stage, "three", t, u)
    d = await joined(await consumer(stage, "d", t, u, assignor="range", instance="i0"))
    await settle([a, b, c, d])
    await targets(stage, "four", t, u)


@scenario
async def range_of_many(stage: Stage) -> None:
    """Ten members for seven partitions."""
    members = await unborn(stage, *(f"m{number}" for number in range(10)), assignor="range")
    await born(stage, members, 7)
    await targets(stage, "after")


@scenario
async def most_members_choose(stage: Stage) -> None:
    """The assignor that most members name; if none names one, the first of the server's.

    No two are named by equally many members: each heartbeat would bump the epoch in Kafka 4.4.
    """
    topic = await known_topic(stage, partitions=6)
    members: list[PlayedConsumer] = []
    for name, assignor in (
        ("a", None),
        ("b", "range"),
        ("c", "range"),
        ("d", "uniform"),
        ("e", None),
    ):
        members.append(await joined(await consumer(stage, name, topic, assignor=assignor)))
        await settle(members)
        await targets(stage, name)
    await members[2].acking(server_assignor="uniform").quiet()
    await settle(members)
    await targets(stage, "two name uniform")
    await members.pop(1).beating(member_epoch=-1).quiet()
    await settle(members)
    await targets(stage, "nobody names range")


@scenario
async def assignor_changes(stage: Stage) -> None:
    """When most members name another assignor, it is used at once, in a new epoch."""
    topic = await known_topic(stage, partitions=5)
    a = await joined(await consumer(stage, "a", topic, assignor="range"))
    await settle([a])
    await targets(stage, "range")
    await a.beating(server_assignor="uniform").quiet()
    await targets(stage, "the next epoch")
    b = await joined(await consumer(stage, "b", topic))
    await settle([a, b])
    await targets(stage, "uniform")


@scenario
async def static_return_keeps_the_target(stage: Stage) -> None:
    """A static member that returns under another id has the target of the old one."""
    members = await unborn(stage, "a", "b", "c")
    static = await joined(await consumer(stage, "d", stage.topic, instance="i"))
    members.append(static)
    await born(stage, members, 10)
    await targets(stage, "before")
    await static.beating(member_epoch=-2, instance_id="i").quiet()
    members[-1] = await joined(await consumer(stage, "z", stage.topic, instance="i"))
    await settle(members)
    await targets(stage, "after")


@scenario
async def a_grown_topic(stage: Stage) -> None:
    """New partitions go to who has fewest, and nothing else moves."""
    members = await unborn(stage, "a", "b", "c")
    await born(stage, members, 4)
    await targets(stage, "four")
    await grow(members[0].client, stage.topic, 9)
    await members[0].reaches(max(one.epoch for one in members) + 1)
    await settle(members)
    await targets(stage, "nine")


async def grow(client: Client, topic: str, count: int) -> None:
    """Add partitions to a topic, unrecorded."""
    await client.quiet(
        "CreatePartitions",
        3,
        topics=[{"name": topic, "count": count, "assignments": None}],
        timeout=10_000,
        validate_only=False,
    )
