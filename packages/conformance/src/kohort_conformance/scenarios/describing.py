"""DescribeGroups: the description of a group in each state, in each version."""

from __future__ import annotations

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    stable,
    static_group,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(7)


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist is Dead: without an error up to version 5, 69 from 6 on."""
    a = await stage.client()
    for version in EVERY_VERSION:
        await look(a, stage.group, version)


@scenario
async def no_groups(stage: Stage) -> None:
    """The response to an empty list of groups is empty."""
    a = await stage.client()
    for version in EVERY_VERSION:
        await a.ask("DescribeGroups", version, groups=[])


@scenario
async def stable_group(stage: Stage) -> None:
    """Members with the chosen protocol's metadata and their assignment, in every version."""
    two = [*protocols("x", metadata=b"mx"), *protocols("y", metadata=b"my")]
    a, _ = await stable(stage, "a", "b", protocols=two, protocol_type="connect")
    for version in EVERY_VERSION:
        await look(a.client, stage.group, version)


@scenario
async def static_members(stage: Stage) -> None:
    """Responses have instance ids from version 4 on."""
    a, _ = await static_group(stage, "a", "b")
    for version in (3, 4, 5, 6):
        await look(a.client, stage.group, version)


@scenario
async def empty_after_members(stage: Stage) -> None:
    """A group whose members left keeps its protocol type."""
    [a] = await stable(stage, "a")
    await a.leave()
    for version in EVERY_VERSION:
        await look(a.client, stage.group, version)


@scenario
async def simple_group(stage: Stage) -> None:
    """A group that only has commits is Empty and has no type."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.commit(topic, {0: 1})
    for version in EVERY_VERSION:
        await look(a.client, stage.group, version)


@scenario
async def first_round(stage: Stage) -> None:
    """A new group between its first join and sync."""
    a = await member(stage)
    await gather_round([a])
    for version in EVERY_VERSION:
        await look(a.client, stage.group, version)


@scenario
async def preparing_and_completing(stage: Stage) -> None:
    """During a rebalance: members without metadata, with the assignments from before.

    No protocol.
    """
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await look(a.client, stage.group, 4)
    await look(a.client, stage.group, 6)
    await a.join()
    await joining.response()
    await look(a.client, stage.group, 4)
    await look(a.client, stage.group, 6)


@scenario
async def pending_ids_are_not_told(stage: Stage) -> None:
    """Ids that were given but not used yet are no members."""
    [a] = await stable(stage, "a")
    await (await member(stage, "b")).handshake()
    await look(a.client, stage.group)


@scenario
async def authorized_operations(stage: Stage) -> None:
    """From version 3 on the operations can be requested, also of groups that do not exist."""
    [a] = await stable(stage, "a")
    groups = [stage.group]
    for version in (3, 5, 6):
        await a.client.ask(
            "DescribeGroups", version, groups=groups, include_authorized_operations=True
        )
        await a.client.ask(
            "DescribeGroups",
            version,
            groups=[stage.group_named("none")],
            include_authorized_operations=True,
        )


@scenario
async def client_ids(stage: Stage) -> None:
    """The client id is the one of the latest join."""
    [a] = await stable(stage, "a")
    a.client.client_id = "renamed"
    await a.heartbeat()
    await look(a.client, stage.group)
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)
