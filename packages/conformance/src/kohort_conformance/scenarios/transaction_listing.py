"""DescribeTransactions, ListTransactions, FindCoordinator of transactions, and the features."""

from __future__ import annotations

from typing import Any

from kohort_conformance.producers import NEW, OLD, newcomer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage

STATES = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")


async def one_in_each_state(stage: Stage) -> tuple[Client, list[int]]:
    """Transactional ids in each state that lasts; their producer ids in the order of `STATES`."""
    topic = await stage.create_topic()
    empty, ongoing, committed, aborted = [await producer(stage, client_id) for client_id in "abcd"]
    await ongoing.open(topic)
    await committed.open(topic)
    await committed.close(True)
    await aborted.open(topic)
    await aborted.close(False)
    return empty.client, [one.id for one in (empty, ongoing, committed, aborted)]


async def list_(client: Client, ids: list[int], version: int = 2, **values: Any) -> None:
    """ListTransactions of these producers, recorded."""
    await client.ask(
        "ListTransactions", version, **{"producer_id_filters": ids, "duration_filter": -1, **values}
    )


@scenario
async def described(stage: Stage) -> None:
    """State, timeout, start, producer and partitions of ids in each state."""
    client, _ = await one_in_each_state(stage)
    names = [f"{stage.name}-{name}{stage.suffix}" for name in "abcd"]
    for name in names:
        await client.ask("DescribeTransactions", 0, transactional_ids=[name])
    await client.ask("DescribeTransactions", 0, transactional_ids=names)


@scenario
async def described_strangers(stage: Stage) -> None:
    """Unknown ids, the empty id, an id twice, none."""
    a = await producer(stage)
    b = await newcomer(stage, "b")
    for ids in (
        [b.transactional_id],
        [""],
        [a.transactional_id, a.transactional_id],
        [a.transactional_id, b.transactional_id, ""],
        [],
    ):
        await a.client.ask("DescribeTransactions", 0, transactional_ids=ids)


@scenario
async def described_partitions(stage: Stage) -> None:
    """The partitions of an open transaction."""
    topic = await stage.create_topic()
    for version in (OLD, NEW):
        a = await producer(stage, f"v{version}")
        await (a.open(topic) if version == OLD else a.open_new(topic))
        await a.describe()
        await a.end(True, version)
        await a.describe()
        await a.init()
        await a.describe()


@scenario
async def listed_by_producer(stage: Stage) -> None:
    """Producer ids are a filter."""
    client, ids = await one_in_each_state(stage)
    for version in (0, 1, 2):
        await list_(client, ids, version)
        for one in ids:
            await list_(client, [one], version)
    await list_(client, [2**60])


@scenario
async def listed_by_state(stage: Stage) -> None:
    """States are a filter, by their exact names; unknown names come back."""
    client, ids = await one_in_each_state(stage)
    for version in (0, 1, 2):
        for state in STATES:
            await list_(client, ids, version, state_filters=[state])
        await list_(client, ids, version, state_filters=["ongoing", "", "Odd"])
        await list_(client, ids, version, state_filters=["Ongoing", "Odd", "Empty"])
        await list_(client, ids, version, state_filters=["PrepareCommit", "Dead"])


@scenario
async def listed_by_duration(stage: Stage) -> None:
    """Transactions that have been open for longer, and ids without a start."""
    client, ids = await one_in_each_state(stage)
    for version in (1, 2):
        for duration in (-2, -1, 3_600_000):
            await list_(client, ids, version, duration_filter=duration)


@scenario
async def listed_by_pattern(stage: Stage) -> None:
    """A pattern has to match the whole id; a broken one is invalid."""
    client, ids = await one_in_each_state(stage)
    for pattern in (
        f".*-[ab]{stage.suffix}",
        f"{stage.name}-a",
        f"{stage.name}-b{stage.suffix}",
        ".*",
        "",
        None,
        "[",
    ):
        await list_(client, ids, transactional_id_pattern=pattern)
    await list_(client, ids, transactional_id_pattern=".*", state_filters=["Empty"])
    for pattern in (".*", "["):
        await list_(client, ids, transactional_id_pattern=pattern, state_filters=["Odd"])


@scenario
async def coordinator_in_every_version(stage: Stage) -> None:
    """Key type 1 is a transactional id, which need not exist."""
    a = await newcomer(stage)
    for version in range(1, 4):
        await a.client.ask("FindCoordinator", version, key=a.transactional_id, key_type=1)
    for version in range(4, 7):
        await a.client.ask(
            "FindCoordinator", version, key_type=1, coordinator_keys=[a.transactional_id]
        )


@scenario
async def coordinator_of_odd_keys(stage: Stage) -> None:
    """The empty id, several ids, an id twice, none."""
    a = await newcomer(stage)
    for version in (1, 3):
        await a.client.ask("FindCoordinator", version, key="", key_type=1)
    for keys in ([""], [a.transactional_id, "", a.transactional_id], []):
        await a.client.ask("FindCoordinator", 6, key_type=1, coordinator_keys=keys)


@scenario
async def feature(stage: Stage) -> None:
    """ApiVersions tells that transaction.version is 2; who may use level 0 is told from v4 on."""
    a = await stage.client()
    for version in (3, 4, 5):
        told = await a.quiet(
            "ApiVersions", version, client_software_name="s", client_software_version="1"
        )
        for name in ("supported_features", "finalized_features"):
            levels = [one for one in told[name] if one["name"] == "transaction.version"]
            stage.note(f"v{version}: {name}", levels)
        stage.note(f"v{version}: is finalized", told["finalized_features_epoch"] >= 0)


@scenario
async def api_versions(stage: Stage) -> None:
    """The versions of the APIs of transactions."""
    a = await stage.client()
    told = await a.quiet("ApiVersions", 0)
    keys = (0, 22, 24, 25, 26, 27, 28, 61, 65, 66)
    stage.note("served", [one for one in told["api_keys"] if one["api_key"] in keys])
