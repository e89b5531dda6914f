"""ListGroups: every version, filters by state and by type.

Only the scenario's own groups are recorded.
"""

from __future__ import annotations

from typing import Any

from kohort_conformance.members import gather_round, member, stable, until_rebalancing
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage


async def listed(client: Client, version: int, **filters: Any) -> None:
    """Record a ListGroups response without other people's groups, sorted by name."""
    stage = client.stage
    response = await client.quiet("ListGroups", version, **filters)
    own = sorted(
        (one for one in response["groups"] if one["group_id"] in stage.groups),
        key=lambda one: one["group_id"],
    )
    said = " ".join(f"{name}={value}" for name, value in filters.items())
    stage.note(
        (f"{client.client_id}: ListGroups v{version} {said}").strip(), {**response, "groups": own}
    )


async def one_of_each(stage: Stage) -> Client:
    """Groups that are Stable, Empty, simple, Preparing and Completing."""
    topic = await stage.create_topic()
    await stable(stage, "a", group=stage.group_named("stable"))
    [left] = await stable(stage, "b", group=stage.group_named("empty"))
    await left.leaving().quiet()
    simple = await member(stage, "c", group=stage.group_named("simple"))
    await simple.committing(topic, {0: 1}).quiet()
    [preparing] = await stable(
        stage, "d", group=stage.group_named("preparing"), protocol_type="connect"
    )
    newcomer = await member(stage, "e", group=preparing.group, protocol_type="connect")
    (await newcomer.handshake()).joining()
    await until_rebalancing(preparing)
    completing = await member(stage, "f", group=stage.group_named("completing"))
    await gather_round([completing])
    return await stage.client("lister")


@scenario
async def every_version(stage: Stage) -> None:
    """Without filters: all groups, with states since version 4 and types since version 5."""
    client = await one_of_each(stage)
    for version in range(6):
        await listed(client, version)


@scenario
async def by_state(stage: Stage) -> None:
    """States are matched without regard to case; unknown ones match nothing."""
    client = await one_of_each(stage)
    for states in (
        ["Stable"],
        ["stable"],
        ["Empty", "PREPARINGREBALANCE"],
        ["CompletingRebalance"],
        ["Dead"],
    ):
        await listed(client, 4, states_filter=states)
        await listed(client, 5, states_filter=states)
    await listed(client, 5, states_filter=["Assigning"])
    await listed(client, 5, states_filter=["no such state"])
    await listed(client, 5, states_filter=[""])
    await listed(client, 5, states_filter=["no such state", "Stable"])


@scenario
async def by_type(stage: Stage) -> None:
    """Types are matched without regard to case; unknown ones match nothing."""
    client = await one_of_each(stage)
    for types in (
        ["classic"],
        ["CLASSIC"],
        ["consumer"],
        ["share"],
        ["no such type"],
        [""],
        ["consumer", "Classic"],
    ):
        await listed(client, 5, types_filter=types)


@scenario
async def by_both(stage: Stage) -> None:
    """State and type must both match."""
    client = await one_of_each(stage)
    await listed(client, 5, states_filter=["Stable"], types_filter=["classic"])
    await listed(client, 5, states_filter=["Stable"], types_filter=["consumer"])


@scenario
async def pending_only(stage: Stage) -> None:
    """A group with only pending ids is listed as Empty without a type."""
    a = await (await member(stage)).handshake()
    for version in (0, 5):
        await listed(a.client, version)


@scenario
async def deleted_group(stage: Stage) -> None:
    """A deleted group is not listed."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.commit(topic, {0: 1})
    await listed(a.client, 5)
    await a.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    await listed(a.client, 5)
