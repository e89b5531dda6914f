"""JoinGroup: who is let in, who is turned away and with which code, and what starts a rebalance."""

from __future__ import annotations

import re

from kohort.conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    rejoin,
    stable,
    subscription,
    sync_all,
    until_rebalancing,
    until_state,
)
from kohort.conformance.scenario import scenario
from kohort.conformance.stage import Stage

EVERY_VERSION = range(10)
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@scenario
async def empty_group_id(stage: Stage) -> None:
    """An empty group id is refused in every version."""
    a = await member(stage, group="")
    for version in EVERY_VERSION:
        await a.join(version)


@scenario
async def session_timeout_out_of_range(stage: Stage) -> None:
    """A session timeout outside group.min/max.session.timeout.ms is refused, and makes no group."""
    a = await member(stage)
    for milliseconds in (5_999, 1_800_001, 0, -1):
        await a.join(session_timeout=milliseconds)
    await a.join(3, session_timeout=1)
    await look(a.client, stage.group)


@scenario
async def session_timeout_at_the_limits(stage: Stage) -> None:
    """The limits themselves are accepted."""
    a = await member(stage, "a", group=stage.group_named("low"))
    await a.join(3, session_timeout=6_000)
    b = await member(stage, "b", group=stage.group_named("high"))
    await b.join(3, session_timeout=1_800_000)


@scenario
async def bad_session_before_unknown_member(stage: Stage) -> None:
    """The session timeout is checked before the member id."""
    a = await member(stage)
    await a.join(member_id="nobody", session_timeout=1)


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
async def no_protocol_type(stage: Stage) -> None:
    """An empty protocol type is refused by a new group in every version."""
    a = await member(stage, protocol_type="")
    for version in EVERY_VERSION:
        await a.join(version)
    await look(a.client, stage.group)


@scenario
async def no_protocols(stage: Stage) -> None:
    """An empty list of protocols is refused by a new group in every version."""
    a = await member(stage, protocols=[])
    for version in EVERY_VERSION:
        await a.join(version)
    await look(a.client, stage.group)


@scenario
async def no_protocols_in_stable_group(stage: Stage) -> None:
    """An empty list or type is refused by a live group too, also for its own member."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b")
    await b.join(protocols=[])
    await b.join(protocol_type="")
    await a.join(protocols=[])
    await a.heartbeat()


@scenario
async def another_protocol_type(stage: Stage) -> None:
    """A newcomer of another protocol type is refused, before its member id is looked at."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", protocol_type="connect")
    await b.join()
    await b.join(2)
    await b.join(member_id="nobody")
    await a.join(protocol_type="connect")
    await a.heartbeat()


@scenario
async def no_protocol_in_common(stage: Stage) -> None:
    """A newcomer without a common protocol is refused before its member id is looked at."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", protocols=protocols("other"))
    await b.join()
    await b.join(3)
    await b.join(member_id="nobody")
    await a.heartbeat()


@scenario
async def inconsistent_with_instance_id(stage: Stage) -> None:
    """A static newcomer with foreign protocols is refused with the same code."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", instance="i", protocols=protocols("other"))
    await b.join()
    await a.heartbeat()


@scenario
async def refused_while_preparing(stage: Stage) -> None:
    """Type, protocols and member id are checked in the join phase as well."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    c = await member(stage, "c")
    await c.join(protocol_type="connect")
    await c.join(protocols=protocols("other"))
    await c.join(member_id="nobody")
    await a.join()
    await joining.response()


@scenario
async def refused_while_completing(stage: Stage) -> None:
    """Type, protocols and member id are checked between join and sync as well.

    Nobody is disturbed.
    """
    a = await member(stage)
    await gather_round([a])
    c = await member(stage, "c")
    await c.join(protocol_type="connect")
    await c.join(protocols=protocols("other"))
    await c.join(member_id="nobody")
    await a.sync(assignments={a.id: b"mine"})


@scenario
async def type_of_an_empty_group_changes(stage: Stage) -> None:
    """A group whose members left takes another protocol type and other protocols.

    Generations go on.
    """
    [a] = await stable(stage, "a")
    await a.leave()
    b = await (
        await member(stage, "b", protocol_type="connect", protocols=protocols("sessioned"))
    ).handshake()
    await b.join()
    await look(b.client, stage.group)


@scenario
async def any_type_and_bytes(stage: Stage) -> None:
    """The coordinator does not look into the metadata of types other than "consumer"."""
    a = await member(
        stage, protocol_type="sr", protocols=protocols("v0", "v1", metadata=b"\xff\x00{json}")
    )
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b""})
    await look(a.client, stage.group)


@scenario
async def empty_metadata(stage: Stage) -> None:
    """Metadata of no bytes is fine."""
    a = await member(stage, protocol_type="connect", protocols=protocols("p", metadata=b""))
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)


@scenario
async def metadata_is_no_subscription(stage: Stage) -> None:
    """A consumer whose metadata is no subscription (too short) is served all the same."""
    a = await member(stage, protocols=protocols("range", metadata=b"\x07"))
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)


@scenario
async def second_member(stage: Stage) -> None:
    """A second member starts a rebalance; the first keeps the lead and learns of both."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()
    await look(a.client, stage.group)
    syncing = b.syncing()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()
    await look(a.client, stage.group)


@scenario
async def members_of_every_version(stage: Stage) -> None:
    """Members of versions 0 to 3 join without a handshake and share a group with one of 9."""
    a = await member(stage, "a")
    await gather_round([a])
    for version in range(4):
        b = await member(stage, f"b{version}")
        joining = b.joining(version)
        await until_rebalancing(a)
        await a.join()
        await joining.response()
        await b.leave(1)
        await until_rebalancing(a)
        await a.join()


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
async def leader_rejoins_unchanged(stage: Stage) -> None:
    """The leader's JoinGroup starts a rebalance even without changes: it has new partitions."""
    a, b = await stable(stage, "a", "b")
    joining = a.joining()
    await until_rebalancing(b)
    await joining.still_parked()
    await b.join()
    await joining.response()


@scenario
async def follower_rejoins_unchanged(stage: Stage) -> None:
    """A follower that joins with what the group knows learns the current generation.

    Nobody is disturbed.
    """
    a, b = await stable(stage, "a", "b")
    await b.join()
    await b.join(5)
    await b.sync()
    await a.heartbeat()


@scenario
async def follower_rejoins_changed(stage: Stage) -> None:
    """A follower with other metadata starts a rebalance."""
    a, b = await stable(stage, "a", "b")
    b.protocols = protocols("range", metadata=subscription("t", "u"))
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def follower_rejoins_with_more_protocols(stage: Stage) -> None:
    """One more protocol is a change, though the chosen one stays."""
    a, b = await stable(stage, "a", "b")
    b.protocols = [*b.protocols, *protocols("sticky")]
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def follower_rejoins_with_another_timeout(stage: Stage) -> None:
    """Timeouts alone are no change: no rebalance."""
    a, b = await stable(stage, "a", "b")
    await b.join(session_timeout=20_000, rebalance_timeout=20_000)
    await a.heartbeat()


@scenario
async def sole_leader_rejoins(stage: Stage) -> None:
    """A sole member that rejoins gets its next generation at once."""
    [a] = await stable(stage, "a")
    await a.join()
    await a.sync(assignments={a.id: b"again"})


@scenario
async def lost_answer_while_completing(stage: Stage) -> None:
    """Between join and sync a repeated JoinGroup gets the same response, the leader its list."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    await a.join()
    await b.join()
    await b.join(2)
    syncing = b.syncing()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()


@scenario
async def changed_while_completing(stage: Stage) -> None:
    """Between join and sync other metadata starts over: parked SyncGroups get 27."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await stage.settle()
    a.protocols = protocols("range", metadata=subscription("u"))
    joining = a.joining()
    await syncing.response()
    await b.join()
    await joining.response()


@scenario
async def newcomer_while_completing(stage: Stage) -> None:
    """A newcomer between join and sync starts over."""
    a, b = await member(stage, "a"), await (await member(stage, "b")).handshake()
    await gather_round([a])
    joining = b.joining()
    await until_rebalancing(a)
    await a.sync(assignments={a.id: b"late"})
    await a.join()
    await joining.response()


@scenario
async def latest_parked_join_counts(stage: Stage) -> None:
    """Of two parked JoinGroups of one member the later one gets the response."""
    [a] = await stable(stage, "a")
    b, again = await member(stage, "b"), await stage.client("b")
    await b.handshake()
    b.joining()
    await until_rebalancing(a)
    b.client = again
    b.protocols = protocols("range", metadata=subscription("u"))
    second = b.joining()
    await stage.settle()
    await a.join()
    await second.response()


@scenario
async def parked_join_survives_its_connection(stage: Stage) -> None:
    """A member whose connection closes while its join is parked is in the next generation."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    b.joining()
    await until_rebalancing(a)
    await b.client.close()
    await stage.settle()
    await a.join()
    await look(a.client, stage.group)


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
async def generations_go_on(stage: Stage) -> None:
    """The generation counts on when a group becomes Empty and lives again."""
    [a] = await stable(stage, "a")
    await a.leave()
    b = await (await member(stage, "b")).handshake()
    await b.join()
    await b.leave()
    c = await (await member(stage, "c")).handshake()
    await c.join()


@scenario
async def rebalance_timeout_zero(stage: Stage) -> None:
    """A sole member with a rebalance timeout of 0 still gets its generation."""
    a = await (await member(stage, rebalance_ms=0)).handshake()
    await a.join()


@scenario
async def rebalance_timeout_negative(stage: Stage) -> None:
    """A negative rebalance timeout is not checked."""
    a = await (await member(stage, rebalance_ms=-1)).handshake()
    await a.join()


@scenario
async def reason_is_taken(stage: Stage) -> None:
    """A reason (version 8, KIP-800), also null or long, changes nothing."""
    a = await (await member(stage)).handshake()
    await a.join(reason="because")
    await a.join(reason=None)
    await a.join(reason="x" * 1_000)


@scenario
async def many_protocols(stage: Stage) -> None:
    """Fifty protocols, of which the first is chosen."""
    names = [f"p{number}" for number in range(50)]
    a = await (await member(stage, protocols=protocols(*names))).handshake()
    await a.join()


@scenario
async def third_member_while_preparing(stage: Stage) -> None:
    """Everybody who joins during the join phase is in the same next generation."""
    [a] = await stable(stage, "a")
    b, c = (
        await (await member(stage, "b")).handshake(),
        await (await member(stage, "c")).handshake(),
    )
    joining_b = b.joining()
    await until_rebalancing(a)
    joining_c = c.joining()
    await until_state(a.client, stage.group, "PreparingRebalance", 3)
    await look(a.client, stage.group)
    await a.join()
    await joining_b.response()
    await joining_c.response()


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
async def unknown_instance_with_member_id(stage: Stage) -> None:
    """A member id with an instance id that the group does not know is unknown."""
    [a] = await stable(stage, "a")
    await a.join(group_instance_id="i")
    await a.join(group_instance_id="i", member_id="nobody")
    await a.heartbeat()


@scenario
async def unicode_names(stage: Stage) -> None:
    """Group, client and protocol names may hold any characters."""
    group = stage.group_named("Gruppe-\u00fc\u4e2d\U0001f600 \t/#")
    a = await member(stage, "kl\u00e4nt", group=group, protocols=protocols("pr\u00f6to"))
    await gather_round([a])
    await sync_all([a])
    await look(a.client, group)


@scenario
async def rejoin_after_everyone(stage: Stage) -> None:
    """A member may join again right after its response, between join and sync."""
    a, b, c = [await member(stage, name) for name in "abc"]
    await gather_round([a, b, c])
    await c.join()
    c.protocols = protocols("range", metadata=subscription("new"))
    joining = c.joining()
    await until_rebalancing(b)
    await rejoin([a, b])
    await joining.response()
