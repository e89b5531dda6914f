"""The rules of ACLs: what beats what, what implies what, and what a user sees of the rest."""

from __future__ import annotations

from typing import Any, Final

from kohort_conformance.acls import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    entry,
    everything,
    exactly,
    grant,
    revoke,
)
from kohort_conformance.consumers import consumer
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.acl_matrix import USER, in_order
from kohort_conformance.stage import Client, Stage

OTHER: Final = "user3"
LISTER: Final = "user4"
WRITER: Final = "user5"
CREATOR: Final = "user6"
REGEX: Final = "user7"


async def described(client: Client, *topics: str) -> None:
    """Metadata of topics, with what may be done with them; recorded."""
    answer = await client.quiet(
        "Metadata",
        9,
        topics=[{"name": one} for one in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    client.stage.note("Metadata", in_order(answer))


async def offsets(client: Client, topic: str) -> str:
    """The error of ListOffsets for one topic."""
    partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    told = await client.quiet(
        "ListOffsets", 5, replica_id=-1, topics=[{"name": topic, "partitions": partitions}]
    )
    code = told["topics"][0]["partitions"][0]["error_code"]
    assert isinstance(code, str)
    return code


@scenario(profile=SECURED)
async def implied_operations(stage: Stage) -> None:
    """READ, WRITE, DELETE and ALTER let describe; a denial of READ does not deny that."""
    client = await stage.client("a", USER)
    for operation in (READ, WRITE, DELETE, ALTER, CREATE, ALTER_CONFIGS, ALL):
        topic = await stage.create_topic(f"topic-{operation}")
        await grant(stage, entry(USER, operation, TOPIC, topic))
        await described(client, topic)
    topic = await stage.create_topic("half")
    await grant(
        stage,
        entry(USER, ALL, TOPIC, topic),
        entry(USER, READ, TOPIC, topic, permission=DENY),
    )
    await described(client, topic)


@scenario(profile=SECURED)
async def denied_operations(stage: Stage) -> None:
    """A denial beats what is allowed, of everybody too, and from one host."""
    client = await stage.client("a", USER)
    for name, denial in (
        ("mine", entry(USER, DESCRIBE, TOPIC, "", permission=DENY)),
        ("all", entry("*", ALL, TOPIC, "", permission=DENY)),
        ("here", entry(USER, DESCRIBE, TOPIC, "", permission=DENY, host="127.0.0.1")),
        ("there", entry(USER, DESCRIBE, TOPIC, "", permission=DENY, host="10.1.2.3")),
        ("network", entry(USER, DESCRIBE, TOPIC, "", permission=DENY, host="127.0.0.0/8")),
    ):
        topic = await stage.create_topic(name)
        await grant(
            stage,
            entry(USER, ALL, TOPIC, topic),
            denial | {"resource_name": topic},
        )
        stage.note(f"denied: {name}", await offsets(client, topic))


@scenario(profile=SECURED)
async def hosts_of_networks(stage: Stage) -> None:
    """A host can be a network in CIDR notation, of IPv4 or IPv6."""
    client = await stage.client("a", USER)
    for number, host in enumerate(
        (
            "127.0.0.0/8",
            "127.0.0.1/32",
            "127.0.0.0/31",
            "127.0.0.2/31",
            "127.9.9.9/8",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "127.0.0.0",
        )
    ):
        topic = await stage.create_topic(f"topic-{number}")
        await grant(stage, entry(USER, DESCRIBE, TOPIC, topic, host=host))
        stage.note(f"from {host}", await offsets(client, topic))


@scenario(profile=SECURED)
async def networks_that_there_are_not(stage: Stage) -> None:
    """A host with a slash must be a network; one without may be anything."""
    admin = await stage.client("a")
    for host in (
        "127.0.0.0/33",
        "127.0.0.0/-1",
        "127.0.0.0/",
        "127.0.0.0/08",
        "127.0.0.0/8/8",
        " 127.0.0.0/8",
        "127.0.0/8",
        "256.0.0.0/8",
        "host/8",
        "/8",
        "/",
        "*/8",
        "::/129",
        "::/-1",
        "::ffff:127.0.0.1/128",
        "::ffff:7f00:1/128",
        "::127.0.0.1/128",
        "::1",
        "fe80::/10",
        "fe80::1/64",
        "fe80:::/10",
        "1:2/3",
        "nowhere",
        "",
    ):
        one = entry(USER, DESCRIBE, TOPIC, stage.topic, host=host)
        stage.acls.append(exactly(one))
        told = await admin.quiet("CreateAcls", 3, creations=[one])
        stage.note(host, told["results"])


@scenario(profile=SECURED)
async def networks_that_deny(stage: Stage) -> None:
    """A denial from a network beats what is allowed from the host, and the other way round."""
    client = await stage.client("a", USER)
    for number, (allowed, denied) in enumerate(
        (
            ("127.0.0.1", "127.0.0.0/8"),
            ("127.0.0.0/8", "127.0.0.1"),
            ("127.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.0/24", "127.0.0.0/8"),
            ("127.0.0.0/8", "*"),
        )
    ):
        topic = await stage.create_topic(f"topic-{number}")
        await grant(
            stage,
            entry(USER, ALL, TOPIC, topic, host=allowed),
            entry("*", DESCRIBE, TOPIC, topic, permission=DENY, host=denied),
        )
        stage.note(f"{allowed} but not {denied}", await offsets(client, topic))


@scenario(profile=SECURED)
async def prefixes(stage: Stage) -> None:
    """An entry with a prefix is about every name that begins with it; others' are not mine."""
    client = await stage.client("a", USER)
    topics = [await stage.create_topic(name) for name in ("topic", "topic-long", "top")]
    await grant(
        stage,
        entry(USER, DESCRIBE, TOPIC, f"{stage.name}-topic", pattern=PREFIXED),
        entry(OTHER, READ, TOPIC, topics[2]),
        entry(USER, DESCRIBE, TOPIC, topics[1], permission=DENY),
    )
    for topic in topics:
        stage.note(topic.removesuffix(stage.suffix), await offsets(client, topic))


@scenario(profile=SECURED)
async def revoked(stage: Stage) -> None:
    """What was allowed is refused on the same connection once its entry is deleted."""
    topic = await stage.create_topic()
    group = entry(USER, READ, GROUP, stage.group)
    client = await stage.client("a", USER)
    await grant(stage, entry(USER, READ, TOPIC, topic), group)
    heartbeat = {"group_id": stage.group, "generation_id": 1, "member_id": "m"}
    commit = {
        "group_id": stage.group,
        "generation_id_or_member_epoch": -1,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
                ],
            }
        ],
    }
    for _ in range(3):
        await client.ask("OffsetCommit", 9, **commit)
    await revoke(stage, group)
    await client.ask("OffsetCommit", 9, **commit)
    await client.ask("Heartbeat", 4, **heartbeat)


@scenario(profile=SECURED)
async def lists(stage: Stage) -> None:
    """Groups, transactional ids and topics in lists are those that the user may describe."""
    names = [await stage.create_topic(name) for name in ("topic", "secret")]
    admin = await stage.client("admin")
    ids = [f"{stage.name}-{name}{stage.suffix}" for name in ("id", "other")]
    for one in ids:
        await admin.quiet(
            "InitProducerId",
            4,
            transactional_id=one,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
    groups = [stage.group_named(name) for name in ("group", "other")]
    for group in groups:
        await admin.quiet("OffsetCommit", 8, group_id=group, topics=[])
        await admin.quiet(
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": names[0], "partitions": [{"committed_offset": 1}]}],
        )
    client = await stage.client("a", LISTER)

    async def ask() -> None:
        await client.ask("Metadata", 9, topics=None)
        await client.ask("ListGroups", 5)
        await client.ask("ListTransactions", 1, duration_filter=-1)
        await client.ask("DescribeTopicPartitions", 0, topics=[], response_partition_limit=10)

    await ask()
    await grant(
        stage,
        entry(LISTER, DESCRIBE, TOPIC, names[0]),
        entry(LISTER, DESCRIBE, GROUP, groups[0]),
        entry(LISTER, DESCRIBE, TRANSACTIONAL_ID, ids[0]),
    )
    await ask()


@scenario(profile=SECURED)
async def idempotent_producers(stage: Stage) -> None:
    """A producer without a transactional id needs to be allowed to write to some topic."""
    client = await stage.client("a", WRITER)
    prefix = f"{stage.name}-x"

    async def ask() -> None:
        await client.ask("InitProducerId", 4, transaction_timeout=1, producer_id=-1)
        told = await client.quiet(
            "InitProducerId",
            4,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        stage.note("InitProducerId", told["error_code"])

    for one in (
        entry(WRITER, READ, TOPIC, prefix),
        entry(WRITER, WRITE, TOPIC, prefix),
        entry(WRITER, WRITE, TOPIC, stage.name, permission=DENY, pattern=PREFIXED),
        entry(WRITER, WRITE, TOPIC, "elsewhere", pattern=PREFIXED),
        entry(WRITER, WRITE, TOPIC, "*", permission=DENY),
    ):
        await ask()
        await grant(stage, one)
    await ask()


@scenario(profile=SECURED)
async def automatic_creation(stage: Stage) -> None:
    """A topic that is asked for is created for whom CREATE is allowed."""
    client = await stage.client("a", CREATOR)
    topic = stage.topic_named("wanted")
    asked: dict[str, Any] = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
    await client.ask("Metadata", 9, **asked)
    await grant(stage, entry(CREATOR, DESCRIBE, TOPIC, topic))
    await client.ask("Metadata", 9, **asked)
    await grant(stage, entry(CREATOR, CREATE, TOPIC, topic))
    await client.ask("Metadata", 9, **asked)
    await stage.until_usable(await stage.client("admin"), topic)


@scenario(profile=SECURED)
async def filters(stage: Stage) -> None:
    """DescribeAcls by name, by what applies to a name, and DeleteAcls of it."""
    admin = await stage.client("admin")
    made = (
        entry(OTHER, READ, TOPIC, stage.topic),
        entry(OTHER, WRITE, TOPIC, stage.topic, permission=DENY, host="10.0.0.1"),
        entry(OTHER, DESCRIBE, TOPIC, f"{stage.name}-to", pattern=PREFIXED),
        entry(OTHER, READ, GROUP, stage.topic),
    )
    await grant(stage, *made)
    principal = {**everything(), "principal_filter": f"User:{OTHER}"}
    named = {**principal, "resource_name_filter": stage.topic}
    for wanted in (
        {**named, "resource_type_filter": TOPIC, "operation": READ},
        {**named, "resource_type_filter": TOPIC, "pattern_type_filter": 2, "operation": DESCRIBE},
        {**named, "resource_type_filter": TOPIC, "permission_type": DENY},
        {**named, "resource_type_filter": GROUP},
        {**named, "resource_type_filter": TOPIC, "host_filter": "10.0.0.1"},
        {**named, "resource_type_filter": TOPIC, "operation": ALL},
        {**named, "resource_type_filter": TOPIC, "pattern_type_filter": PREFIXED},
    ):
        await admin.ask("DescribeAcls", 3, **wanted)
    await admin.ask("DeleteAcls", 3, filters=[exactly(made[0]), exactly(made[0])])


@scenario(profile=SECURED)
async def described_members(stage: Stage) -> None:
    """A consumer group is shown to whom all its topics may be shown."""
    topic = await stage.create_topic()
    await grant(stage, entry(USER, DESCRIBE, GROUP, stage.group))
    member = await consumer(stage, "m", topic)
    await member.joining().quiet()
    client = await stage.client("a", USER)
    await client.ask("ConsumerGroupDescribe", 1, group_ids=[stage.group])
    await grant(stage, entry(USER, DESCRIBE, TOPIC, topic))
    told = await client.quiet("ConsumerGroupDescribe", 1, group_ids=[stage.group])
    stage.note("shown", [told["groups"][0]["error_code"], len(told["groups"][0]["members"])])


@scenario(profile=SECURED)
async def regular_expressions(stage: Stage) -> None:
    """A regular expression sees only the topics that the member may describe."""
    topic, secret = [await stage.create_topic(name) for name in ("topic", "topic-secret")]
    await grant(
        stage,
        entry(REGEX, READ, GROUP, stage.group),
        entry(REGEX, DESCRIBE, TOPIC, topic),
    )
    client = await stage.client("a", REGEX)
    joined = {
        "group_id": stage.group,
        "member_id": "member",
        "rebalance_timeout": 60_000,
        "subscribed_topic_regex": f"{stage.name}-topic.*",
        "topic_partitions": [],
    }
    epoch = (await client.quiet("ConsumerGroupHeartbeat", 1, member_epoch=0, **joined))[
        "member_epoch"
    ]
    seen: list[Any] = []

    async def assigned() -> bool:
        nonlocal epoch
        beat = {"group_id": stage.group, "member_id": "member", "member_epoch": epoch}
        told = await client.quiet("ConsumerGroupHeartbeat", 1, **beat)
        epoch = told["member_epoch"]
        if told["assignment"]:
            seen.extend(told["assignment"]["topic_partitions"])
        return bool(seen)

    await stage.until("the expression is resolved", assigned)
    stage.note("topics assigned", len(seen))
    assert topic != secret
