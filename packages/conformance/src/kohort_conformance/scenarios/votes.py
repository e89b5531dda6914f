"""The protocol vote: which of the common protocols is chosen, and who may still join."""

from __future__ import annotations

from kohort_conformance.members import (
    PlayedMember,
    gather_round,
    look,
    member,
    protocols,
    rejoin,
    stable,
    sync_all,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


async def voters(stage: Stage, *preferences: str) -> list[PlayedMember]:
    """Members a, b, c, … of one joined, unsynced round.

    Each prefers protocols in the order of its string's words.
    """
    names = "abcdefgh"[: len(preferences)]
    members = [
        await member(stage, name, protocols=protocols(*wanted.split(), metadata=name.encode()))
        for name, wanted in zip(names, preferences, strict=True)
    ]
    for one in members:
        one.protocol_type = "connect"
    await gather_round(members)
    return members


async def result(stage: Stage, *preferences: str) -> None:
    """Record the round's responses to everybody, as the retried JoinGroup gets them."""
    for one in await voters(stage, *preferences):
        await one.join()


@scenario
async def first_choice_of_all(stage: Stage) -> None:
    """All prefer the same."""
    await result(stage, "x y", "x y")


@scenario
async def majority_wins(stage: Stage) -> None:
    """Two of three prefer the second protocol."""
    await result(stage, "x y", "y x", "y x")


@scenario
async def majority_against_the_leader(stage: Stage) -> None:
    """The leader has one vote like everybody."""
    await result(stage, "x y z", "z y x", "z x y")


@scenario
async def only_candidates_get_votes(stage: Stage) -> None:
    """A protocol that not all support gets no vote, whoever prefers it."""
    await result(stage, "x y", "x y", "y")


@scenario
async def vote_for_the_first_candidate(stage: Stage) -> None:
    """Who prefers what is no candidate votes for the next in its own order."""
    await result(stage, "u y x", "v y x", "x y")


@scenario
async def metadata_of_the_chosen_protocol(stage: Stage) -> None:
    """The leader gets everybody's metadata of the chosen protocol, not of the first."""
    a = await member(
        stage, "a", protocols=[*protocols("x", metadata=b"ax"), *protocols("y", metadata=b"ay")]
    )
    b = await member(
        stage, "b", protocols=[*protocols("z", metadata=b"bz"), *protocols("y", metadata=b"by")]
    )
    a.protocol_type = b.protocol_type = "connect"
    await gather_round([a, b])
    await a.join()
    await sync_all([a, b])
    await look(a.client, stage.group)


@scenario
async def rolling_upgrade(stage: Stage) -> None:
    """Old and new assignor: the new one is chosen once nobody speaks only the old one."""
    a, b = await stable(stage, "a", "b", protocols=protocols("range", metadata=b"old"))
    a.protocols = protocols("cooperative-sticky", "range", metadata=b"new")
    joining = a.joining()
    await until_rebalancing(b)
    await rejoin([b], joining)
    await a.join()
    b.protocols = protocols("cooperative-sticky", "range", metadata=b"new")
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def newcomer_narrows_the_candidates(stage: Stage) -> None:
    """A newcomer that supports only the second protocol brings the group to it."""
    [a] = await stable(stage, "a", protocols=protocols("x", "y"))
    b = await (await member(stage, "b", protocols=protocols("y"))).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def supported_by_members_but_not_in_common(stage: Stage) -> None:
    """Protocols that only some members support do not let a newcomer in."""
    members = await voters(stage, "x y", "y z")
    c = await member(stage, "c", protocol_type="connect", protocols=protocols("x", "z"))
    await c.join()
    await members[0].heartbeat()


@scenario
async def sole_member_changes_all(stage: Stage) -> None:
    """Even a sole member may not exchange all of its protocols: its own old ones count."""
    [a] = await stable(stage, "a")
    await a.join(protocols=protocols("other"))
    await a.heartbeat()
    await a.join(protocols=protocols("other", "range"))


@scenario
async def member_drops_the_chosen_one(stage: Stage) -> None:
    """A member that drops the chosen protocol but keeps another common one starts a new vote."""
    a, b = await stable(stage, "a", "b", protocols=protocols("x", "y"))
    joining = b.joining(protocols=protocols("y"))
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def leaver_frees_its_protocol(stage: Stage) -> None:
    """When the only member that lacked a protocol leaves, that protocol is a candidate again."""
    members = await voters(stage, "x y", "y")
    await sync_all(members)
    a, b = members
    await a.join(protocols=protocols("x", metadata=b"a"))
    await b.leave()
    await until_rebalancing(a)
    await a.join()
    await a.join(protocols=protocols("x", metadata=b"a"))


@scenario
async def changed_vote_while_preparing(stage: Stage) -> None:
    """A parked member that joins again with another order votes by the later one."""
    a, b = await stable(stage, "a", "b", protocols=protocols("x", "y"))
    b.joining(protocols=protocols("x", "y", "z"))
    await until_rebalancing(a)
    second_connection = await stage.client("b")
    b.client = second_connection
    second = b.joining(protocols=protocols("y", "x"))
    await stage.settle()
    await a.join(protocols=protocols("y", "x"))
    await second.response()


@scenario
async def empty_protocol_name(stage: Stage) -> None:
    """A protocol may be named by the empty string."""
    a = await (await member(stage, protocols=protocols(""))).handshake()
    await a.join()
    await a.sync(protocol_name="", assignments={a.id: b"x"})
    await a.sync(3, assignments={a.id: b"x"})
