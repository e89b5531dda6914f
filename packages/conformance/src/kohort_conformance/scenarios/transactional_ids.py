"""InitProducerId with a transactional id: new ids, epochs, fencing and timeouts (KIP-360)."""

from __future__ import annotations

from kohort_conformance.producers import NEW, newcomer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(6)
WITH_VALUES = range(3, 6)
"""Versions that carry the producer's own id and epoch."""


@scenario
async def new_in_every_version(stage: Stage) -> None:
    """A new transactional id gets a new producer id with epoch 0 and is Empty."""
    for version in EVERY_VERSION:
        a = await newcomer(stage, f"v{version}")
        await a.init(version)
        await a.describe()


@scenario
async def again_in_every_version(stage: Stage) -> None:
    """Without the producer's own values each request bumps the epoch."""
    a = await newcomer(stage)
    for version in EVERY_VERSION:
        await a.init(version)


@scenario
async def with_the_current_epoch(stage: Stage) -> None:
    """With the current id and epoch the epoch is bumped."""
    a = await producer(stage)
    for version in WITH_VALUES:
        await a.init_again(version)


@scenario
async def repeated(stage: Stage) -> None:
    """The epoch before the last bump gets the current one: the response may have been lost."""
    a = await producer(stage)
    for _ in range(3):
        await a.init_again(producer_epoch=0)
    await a.init_again(producer_epoch=1)
    await a.init_again(producer_epoch=1)
    await a.init_again(producer_epoch=0)


@scenario
async def stale_epochs(stage: Stage) -> None:
    """An epoch before the last one, or that is not given yet, is fenced."""
    a = await producer(stage)
    for _ in range(3):
        await a.init()
    for version in WITH_VALUES:
        for epoch in (0, 1, 4):
            await a.init_again(version, producer_epoch=epoch)


@scenario
async def bump_without_values_forgets_the_last_epoch(stage: Stage) -> None:
    """After a bump by somebody without values the epoch before it is fenced."""
    a = await producer(stage)
    await a.init_again()
    await a.init()
    await a.init_again(producer_epoch=1)
    await a.init_again(producer_epoch=0)


@scenario
async def other_producer_ids(stage: Stage) -> None:
    """A producer id that is not the transactional id's is fenced."""
    a = await producer(stage)
    b = await producer(stage, "b")
    for version in WITH_VALUES:
        await a.init_again(version, producer_id=b.id)
        await a.init_again(version, producer_id=2**60)
    await a.init_again(producer_id=2**60, producer_epoch=7)


@scenario
async def half_of_the_values(stage: Stage) -> None:
    """A producer id without an epoch, and an epoch without an id, are invalid."""
    a = await producer(stage)
    for version in WITH_VALUES:
        await a.init_again(version, producer_epoch=-1)
        await a.init_again(version, producer_id=-1)
    await a.init_again(producer_id=-2)
    await a.init_again(producer_epoch=-2)


@scenario
async def timeouts(stage: Stage) -> None:
    """A timeout must be above 0 and at most transaction.max.timeout.ms."""
    a = await newcomer(stage)
    for timeout in (0, -1, 900_001, 2**31 - 1):
        for version in (0, 5):
            await a.init(version, transaction_timeout=timeout)
    for timeout in (1, 900_000):
        await a.init(transaction_timeout=timeout)
        await a.describe()


@scenario
async def refused_timeout_changes_nothing(stage: Stage) -> None:
    """With an invalid timeout the epoch stays and an open transaction stays open."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    await a.init_again(transaction_timeout=900_001)
    await a.end(True)


@scenario
async def unknown_id_with_values(stage: Stage) -> None:
    """An unknown transactional id gets new values, whatever values it says it has."""
    a = await newcomer(stage)
    await a.init(producer_id=2**60, producer_epoch=12)
    b = await newcomer(stage, "b")
    await b.init(producer_id=a.id, producer_epoch=0)


@scenario
async def while_a_transaction_is_open(stage: Stage) -> None:
    """An open transaction is aborted at the next epoch; the request is repeated until then."""
    topic = await stage.create_topic()
    for version in EVERY_VERSION:
        a = await producer(stage, f"v{version}")
        await a.open(topic)
        await a.initializing(version).response()
        await a.until("CompleteAbort")
        await a.describe()
        await a.init(version)
        await a.describe()


@scenario
async def with_own_values_while_a_transaction_is_open(stage: Stage) -> None:
    """The producer's own values are, repeated, those before the bump of the abort."""
    topic = await stage.create_topic()
    for version in WITH_VALUES:
        a = await producer(stage, f"v{version}")
        await a.open(topic)
        before = {"producer_id": a.id, "producer_epoch": a.epoch}
        await a.initializing(version, **before).response()
        await a.until("CompleteAbort")
        await a.init(version, **before)
        await a.describe()


@scenario
async def stale_epoch_while_a_transaction_is_open(stage: Stage) -> None:
    """A stale epoch is fenced; Kafka aborts the transaction of its successor all the same."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    await a.init()
    await a.open(topic)
    await a.init_again(producer_epoch=0)
    await a.end(True)


@scenario
async def other_producer_id_while_a_transaction_is_open(stage: Stage) -> None:
    """Another producer id is fenced and the transaction stays open."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    for version in WITH_VALUES:
        await a.init_again(version, producer_id=2**60)
    await a.end(True)


@scenario
async def after_transactions(stage: Stage) -> None:
    """The epoch is bumped after a commit and an abort, of either protocol."""
    topic = await stage.create_topic()
    for version in (4, NEW):
        for commit in (True, False):
            a = await producer(stage, f"v{version} {commit}")
            await a.open(topic)
            await a.close(commit, version)
            await a.init()
            await a.describe()
            await a.init_again()


@scenario
async def with_the_epoch_before_the_end(stage: Stage) -> None:
    """After an end that bumped the epoch, the epoch before it gets the current one."""
    topic = await stage.create_topic()
    for commit in (True, False):
        a = await producer(stage, f"commit {commit}")
        await a.open_new(topic)
        before = {"producer_id": a.id, "producer_epoch": a.epoch}
        await a.close(commit, NEW)
        await a.init(**before)
        await a.init_again()
        await a.init(**before)


@scenario
async def producer_that_was_fenced(stage: Stage) -> None:
    """Nothing of a producer is taken once another one has its transactional id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await (await newcomer(stage, "b", "a")).init()
    await a.add(topic)
    await a.add_offsets(stage.group)
    await a.write(topic)
    await a.write(topic, version=12)
    await a.commit_offsets(stage.group, topic, {0: 1}, 5)
    for version in (1, 4, 5):
        await a.end(True, version)
    await a.init_again()


@scenario
async def version_6(stage: Stage) -> None:
    """Version 6 (KIP-939) is not served."""
    a = await newcomer(stage)
    request = {"transactional_id": a.transactional_id, "transaction_timeout": 60_000}
    await a.client.ask("InitProducerId", 6, **request)
    b = await newcomer(stage, "b")
    await b.client.ask("InitProducerId", 6, enable2_pc=True, **request)
