"""A member without an event loop loses its partition inside a transaction, and gets it back.

The application's thread works on while the member joins again in the background. So one member has
the same records twice, and each time it is the rightful owner of the partition.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from kohort.client import (
    BrokerUnreachableError,
    ClientConfig,
    End,
    GenerationEndedError,
    GroupMetadata,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
)
from kohort.client.net import Connection
from kohort.client.sync import Consumer, ConsumerGroup, Producer, run
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from waiting import until, wait_until

PROTOCOLS = ["classic", "classic follower", "consumer"]
"""A coordinator completes no rebalance for a follower that joins again as it was."""
HEARTBEAT_MS = 200
MEMBER = "a"
"""Client id of the member under test: the range assignor gives it the first partition."""


@pytest.fixture
def config() -> Iterator[ClientConfig]:
    """Leads to a broker that knows its members for longer than they know themselves."""
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": f"{HEARTBEAT_MS}",
        "group.consumer.heartbeat.interval.ms": f"{HEARTBEAT_MS}",
    }
    broker = Broker(Config(settings))
    run(broker.__aenter__())
    try:
        yield ClientConfig(bootstrap=str(broker.address), retry_backoff_ms=5)
    finally:
        run(broker.__aexit__(None, None, None))


class Network:
    """Loses heartbeats, and does something before the next TxnOffsetCommit arrives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loses_heartbeats = False
        self.before_offsets: Callable[[], Awaitable[None]] | None = None
        submit = Connection.submit

        async def faulty(connection: Connection, wire: Any, *body: Any, **options: Any) -> Any:
            is_member = connection._config.client_id == MEMBER
            if self.loses_heartbeats and is_member and wire.api.endswith("heartbeat"):
                raise connection.fail(BrokerUnreachableError("the heartbeat is lost"))
            if wire.api == "txn_offset_commit" and self.before_offsets is not None:
                before, self.before_offsets = self.before_offsets, None
                await before()
            return await submit(connection, wire, *body, **options)

        monkeypatch.setattr(Connection, "submit", faulty)

    async def lose_and_regain(self, group: ConsumerGroup) -> None:
        """Have the member lose its partition, and get it again at the committed offset."""
        before = group._present
        assert before is not None
        self.loses_heartbeats = True
        await until(lambda: before.end is End.LOST)
        self.loses_heartbeats = False
        await until(lambda: group._present is not before)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return Network(monkeypatch)


@contextmanager
def opened(config: ClientConfig, protocol: str) -> Iterator[ConsumerGroup]:
    """A member, and one record for it; as a follower it has a leader beside it."""
    options: dict[str, Any] = {
        "topics": ["orders"],
        "bootstrap": config.bootstrap,
        "protocol": protocol.split()[0],
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "session_timeout_ms": 1_000,
    }
    with Producer(config) as feeder:
        feeder.send_and_wait("orders", b"1", partition=0)
    with ExitStack() as stack:
        if protocol == "classic follower":
            leader = stack.enter_context(ConsumerGroup("totals", client_id="z", **options))
            wait_until(lambda: leader.assignment)
        member = stack.enter_context(ConsumerGroup("totals", client_id=MEMBER, **options))
        wait_until(lambda: TopicPartition("orders", 0) in member.assignment)
        yield member


def as_owner(group: ConsumerGroup) -> Any:
    return group.generation


def by_metadata(group: ConsumerGroup) -> GroupMetadata:
    """As for a process that commits in the name of the member."""
    return group.generation.to_commit({})[0]


@pytest.mark.parametrize("owner", [as_owner, by_metadata])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_that_come_after_the_partition_came_back_abort(
    config: ClientConfig, network: Network, protocol: str, owner: Callable[[ConsumerGroup], Any]
) -> None:
    """The member began again where they were not committed, and gets the records once more."""
    outcomes: list[TransactionOutcome | None] = []
    with (
        opened(config, protocol) as group,
        Producer(config, transactional_id="totals-1") as producer,
    ):
        network.before_offsets = lambda: network.lose_and_regain(group)
        for batch in group:
            here, transaction = batch.topic_partition, producer.transaction()
            with suppress(TransactionAbortedError, GenerationEndedError), transaction:
                for record in batch:
                    producer.send("totals", record.value)
                transaction.commit_offsets({here: batch.next_offset}, owner(group))
            outcomes.append(transaction.outcome)
            if len(outcomes) == 2:
                break
            with suppress(GenerationEndedError):
                group.seek(here, batch.first_offset)
    assert outcomes == [TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED]
    with Consumer(config, isolation_level="read_committed", start_offset="first") as consumer:
        consumer.assign_topics("totals")
        totals = [*consumer.read_to(consumer.end_offsets(consumer.assignment))]
    assert [record.value for record in totals] == [b"1"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_batch_from_before_the_partition_was_lost_is_not_sought(
    config: ClientConfig, network: Network, protocol: str
) -> None:
    """Another member may have processed it, and then a newer offset is committed."""
    with opened(config, protocol) as group:
        batch = next(group)
        run(network.lose_and_regain(group))
        with pytest.raises(GenerationEndedError, match="orders-0 is not this member's any more"):
            group.seek(batch.topic_partition, batch.first_offset)
        again = next(group)
        group.seek(again.topic_partition, again.first_offset)
        assert next(group).first_offset == again.first_offset


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_from_before_a_partition_was_lost_are_not_committed_with_others(
    config: ClientConfig, network: Network, protocol: str
) -> None:
    """A program collects the batches of several partitions, and commits them together."""
    with opened(config, protocol) as group, Producer(config) as feeder:
        first = next(group)
        group.commit()
        run(network.lose_and_regain(group))
        feeder.send("orders", b"2", partition=1)
        second = next(group)
        offsets = {each.topic_partition: each.next_offset for each in (second, first)}
        assert len(offsets) == 2
        with pytest.raises(GenerationEndedError, match="orders-0 is not this member's any more"):
            group.commit(offsets)
        with pytest.raises(GenerationEndedError, match="orders-0 is not this member's any more"):
            group.generation.to_commit(offsets)
        group.commit()
