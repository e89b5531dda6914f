"""Fetch sessions (KIP-227): full and incremental fetches, unknown and out-of-step sessions."""

from __future__ import annotations

from typing import Any

from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.fetching import LARGE, fill, filled, part
from kohort_conformance.stage import Client, Stage, topic_id


async def fetch(
    client: Client,
    session: int,
    epoch: int,
    topics: list[dict[str, Any]],
    version: int = 11,
    **values: Any,
) -> dict[str, Any]:
    """A Fetch with session id and epoch, recorded."""
    request = {"max_wait": 0, "min_bytes": 0, "max_bytes": LARGE, "topics": topics, **values}
    return await client.ask("Fetch", version, session_id=session, session_epoch=epoch, **request)


@scenario
async def life_of_a_session(stage: Stage) -> None:
    """A full fetch opens a session; then responses have only what changed."""
    a, topic = await filled(stage)
    asked = [{"topic": topic, "partitions": [part()]}]
    response = await fetch(a, 0, 0, asked)
    session = int(response.get("session_id") or 0)
    stage.note("there is a session", session > 0)
    await fetch(a, session, 1, [{"topic": topic, "partitions": [part(offset=6)]}])
    await fetch(a, session, 2, [])
    await fill(a, topic, batches=1)
    await fetch(a, session, 3, [])
    await fetch(a, session, 4, [{"topic": topic, "partitions": [part(offset=8)]}])
    await fetch(a, session, 5, [])


@scenario
async def session_by_version(stage: Stage) -> None:
    """Sessions begin in version 7; epoch -1 asks for none."""
    a, topic = await filled(stage)
    asked = [{"topic": topic, "partitions": [part(offset=4)]}]
    for version in (4, 6, 7, 12):
        await fetch(a, 0, 0, asked, version)
        await fetch(a, 0, -1, asked, version)


@scenario
async def unknown_session(stage: Stage) -> None:
    """A session id that nobody has."""
    a, topic = await filled(stage)
    asked = [{"topic": topic, "partitions": [part()]}]
    for version in (7, 11, 12):
        await fetch(a, 1_234_567, 1, asked, version)
    await fetch(a, 1_234_567, 1, [])
    await fetch(a, 1_234_567, 0, asked)
    await fetch(a, 1_234_567, -1, asked)
    await fetch(a, 0, 5, asked)


@scenario
async def wrong_epoch(stage: Stage) -> None:
    """A session out of step; after that it is still there in its own step."""
    a, topic = await filled(stage)
    asked = [{"topic": topic, "partitions": [part(offset=6)]}]
    session = int((await fetch(a, 0, 0, asked)).get("session_id") or 0)
    await fetch(a, session, 5, [])
    await fetch(a, session, 1, [])
    await fetch(a, session, 1, [])
    await fetch(a, session, 2, [])


@scenario
async def closed_session(stage: Stage) -> None:
    """Epoch -1 with a session id closes it and fetches without one."""
    a, topic = await filled(stage)
    asked = [{"topic": topic, "partitions": [part(offset=4)]}]
    session = int((await fetch(a, 0, 0, asked)).get("session_id") or 0)
    await fetch(a, session, -1, asked)
    await fetch(a, session, 1, [])


@scenario
async def forgotten_partitions(stage: Stage) -> None:
    """A forgotten partition is in no response any more; an added one is."""
    topic = await stage.create_topic(partitions=3)
    a = await stage.client()
    session = int(
        (await fetch(a, 0, 0, [{"topic": topic, "partitions": [part(0), part(1)]}])).get(
            "session_id"
        )
        or 0
    )
    for partition in range(3):
        await fill(a, topic, partition, 1)
    forgotten = [{"topic": topic, "partitions": [0]}]
    await fetch(a, session, 1, [], forgotten_topics_data=forgotten)
    await fetch(a, session, 2, [{"topic": topic, "partitions": [part(2)]}])
    await fetch(a, session, 3, [{"topic": topic, "partitions": [part(1, 2), part(2, 2)]}])
    await fetch(a, session, 4, [])


@scenario
async def errors_in_a_session(stage: Stage) -> None:
    """A partition with an error is in every response."""
    a, topic = await filled(stage)
    none = stage.topic_named("none")
    asked = [
        {"topic": none, "partitions": [part()]},
        {"topic": topic, "partitions": [part(offset=6)]},
    ]
    session = int((await fetch(a, 0, 0, asked)).get("session_id") or 0)
    await fetch(a, session, 1, [])
    await fetch(a, session, 2, [])


@scenario
async def session_with_ids(stage: Stage) -> None:
    """A session of topics by id."""
    a, topic = await filled(stage)
    known = await topic_id(a, topic)
    asked = [{"topic_id": known, "partitions": [part(offset=6)]}]
    session = int((await fetch(a, 0, 0, asked, 15)).get("session_id") or 0)
    await fetch(a, session, 1, [], 15)
    await fill(a, topic, batches=1)
    await fetch(a, session, 2, [], 15)


@scenario
async def names_in_a_session_of_ids(stage: Stage) -> None:
    """A session of names cannot go on with ids."""
    a, topic = await filled(stage)
    known = await topic_id(a, topic)
    session = int(
        (await fetch(a, 0, 0, [{"topic": topic, "partitions": [part()]}], 12)).get("session_id")
        or 0
    )
    await fetch(a, session, 1, [{"topic_id": known, "partitions": [part(offset=6)]}], 13)


@scenario
async def session_of_another_connection(stage: Stage) -> None:
    """A session does not belong to its connection."""
    a, topic = await filled(stage)
    session = int(
        (await fetch(a, 0, 0, [{"topic": topic, "partitions": [part()]}])).get("session_id") or 0
    )
    await a.close()
    b = await stage.client("b")
    await fetch(b, session, 1, [{"topic": topic, "partitions": [part(offset=4)]}])
