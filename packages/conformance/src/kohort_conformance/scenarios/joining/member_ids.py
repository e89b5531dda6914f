"""Member ids: who gets one, how long it is good, who is unknown."""

from __future__ import annotations

import re

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    stable,
    subscription,
    sync_all,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(10)
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@scenario
async def member_id_handshake(stage: Stage) -> None:
    """From version 4 on the first response only gives an id.

    The group exists, Empty, before it is used (KIP-394).
    """
    a = await member(stage)
    response = await a.join()
    shape = re.fullmatch(f"a-{UUID4}", str(response.get("member_id"))) is not None
    stage.note("the member id is client id, dash, random UUID", shape)
    await look(a.client, stage.group)
    await a.join()
    await look(a.client, stage.group)


@scenario
async def handshake_in_every_version(stage: Stage) -> None:
    """Responses to the first and the second JoinGroup in each version."""
    for version in EVERY_VERSION:
        a = await member(stage, f"a{version}", group=stage.group_named(f"v{version}"))
        first = await a.join(version)
        if first.get("error_code") != "NONE (0)":
            await a.join(version)


@scenario
async def each_handshake_gives_another_id(stage: Stage) -> None:
    """Two JoinGroups with empty ids give two pending ids, both good."""
    a = await member(stage, "a")
    first, second = await a.join(member_id=""), await a.join(member_id="")
    stage.note("the ids differ", first.get("member_id") != second.get("member_id"))
    b = await member(stage, "b")
    joining = b.joining(member_id=first["member_id"])
    await stage.settle()
    await a.client.ask(
        "LeaveGroup", 3, group_id=stage.group, members=[{"member_id": second["member_id"]}]
    )
    await joining.response()


@scenario
async def null_client_id(stage: Stage) -> None:
    """Without a client id in the header the member id is made from an empty one."""
    a = await member(stage)
    a.client.client_id = None
    response = await a.join()
    shape = re.fullmatch(f"-?{UUID4}", str(response.get("member_id"))) is not None
    stage.note("the member id is the UUID after an empty client id", shape)
    stage.note("it starts with the dash", str(response.get("member_id")).startswith("-"))
    await a.join()
    await look(a.client, stage.group)


@scenario
async def pending_id_used_on_another_connection(stage: Stage) -> None:
    """A pending id belongs to nobody's connection; the client id recorded is that of the join."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await a.join()
    await b.join(member_id=a.id)
    await look(b.client, stage.group)


@scenario
async def pending_id_in_another_group(stage: Stage) -> None:
    """A pending id is only good in the group that gave it."""
    a = await member(stage)
    await a.join()
    await a.join(group_id=stage.group_named("other"))


@scenario
async def pending_id_before_version_4(stage: Stage) -> None:
    """A pending id may be used by an older version."""
    a = await member(stage)
    await a.join(4)
    await a.join(1)


@scenario
async def pending_id_asks_again(stage: Stage) -> None:
    """A connection that asks for a second id: the first id stays good and is awaited."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b")
    first = await b.join(member_id="")
    await b.join(member_id="")
    joining = b.joining(member_id=first["member_id"])
    await until_rebalancing(a)
    leaving = a.leaving()
    await leaving.response()
    await joining.still_parked()


@scenario
async def pending_id_holds_up_the_join_phase(stage: Stage) -> None:
    """The join phase waits for an id that was given but not used yet, and ends when it joins."""
    [a] = await stable(stage, "a")
    b, c = (
        await (await member(stage, "b")).handshake(),
        await (await member(stage, "c")).handshake(),
    )
    joining_b = b.joining()
    await until_rebalancing(a)
    joining_a = a.joining()
    await joining_a.still_parked()
    await c.join()
    await joining_a.response()
    await joining_b.response()


@scenario
async def known_member_of_an_empty_group(stage: Stage) -> None:
    """The id of a member that left is unknown to the Empty group, and to a later one."""
    [a] = await stable(stage, "a")
    await a.leave()
    await a.join()
    b = await member(stage, "b")
    await gather_round([b])
    await a.join()


@scenario
async def unknown_member_without_group(stage: Stage) -> None:
    """An unknown member id is refused by a group that does not exist, and makes no group."""
    a = await member(stage)
    for version in EVERY_VERSION:
        await a.join(version, member_id="nobody")
    await look(a.client, stage.group, 6)


@scenario
async def unknown_member_of_stable_group(stage: Stage) -> None:
    """A member id that nobody has is unknown to a live group too, and disturbs nobody."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b")
    await b.join(member_id="nobody")
    await b.join(2, member_id="nobody")
    await a.heartbeat()


@scenario
async def unknown_instance_with_member_id(stage: Stage) -> None:
    """A member id with an instance id that the group does not know is unknown."""
    [a] = await stable(stage, "a")
    await a.join(group_instance_id="i")
    await a.join(group_instance_id="i", member_id="nobody")
    await a.heartbeat()


@scenario
async def two_members_of_one_client_id(stage: Stage) -> None:
    """Members are told apart by member id, never by client id."""
    [a] = await stable(stage, "a")
    b = await (
        await member(stage, "a", protocols=protocols("range", metadata=subscription("u")))
    ).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()
    stage.note("their ids differ", a.id != b.id)
    await look(a.client, stage.group)


@scenario
async def unicode_names(stage: Stage) -> None:
    """Group, client and protocol names may hold any characters."""
    group = stage.group_named("Gruppe-\u00fc\u4e2d\U0001f600 \t/#")
    a = await member(stage, "kl\u00e4nt", group=group, protocols=protocols("pr\u00f6to"))
    await gather_round([a])
    await sync_all([a])
    await look(a.client, group)
