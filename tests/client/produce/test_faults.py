"""Producing while brokers fail: every record once and in order, or an error that says what was
tried.
"""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.fake_cluster import HANG, HANG_UP, FakeCluster
from effort import examples
from kohort.client.cluster.cluster import Cluster
from kohort.client.errors import (
    AuthenticationError,
    BufferFullError,
    DeliveryTimeoutError,
    GaveUpError,
    UnsupportedVersionError,
)
from kohort.client.net.connection import Connection
from kohort.client.produce.batch import ProduceBatch, ProducerId
from kohort.client.produce.partition import ProducePartition
from kohort.client.produce.producer import Producer
from kohort.client.security import Security
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.batch_format import HEADER_SIZE
from kohort.protocol.compression import Codec
from kohort.types import TopicPartition

NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45


class Log:
    """One partition as a broker keeps it: sequences checked, duplicates known (Kafka's
    ProducerStateManager).

    A producer that it does not know may begin with any sequence (ProducerAppendInfo), unless it
    `insists` on 0.
    """

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.insists = False
        self.producers: dict[int, tuple[int, int]] = {}  # epoch and next sequence by id
        self.sent: dict[tuple[int, int, int], int] = {}  # offset by id, epoch, sequence

    def append(self, batch: bytes) -> tuple[int, int]:
        """(error, base offset)."""
        header = batches.read_header(batch)
        values = [record.value or b"" for record in batches.decode_records(batch)]
        if header.producer_id >= 0:
            who = header.producer_id, header.producer_epoch, header.base_sequence
            if who in self.sent:
                return 0, self.sent[who]
            first = 0 if self.insists else header.base_sequence
            epoch, expected = self.producers.get(header.producer_id, (header.producer_epoch, first))
            if header.producer_epoch > epoch:
                epoch, expected = header.producer_epoch, 0
            if header.base_sequence != expected:
                return OUT_OF_ORDER, -1
            self.producers[header.producer_id] = epoch, expected + header.record_count
            self.sent[who] = len(self.values)
        self.values += values
        return 0, len(self.values) - header.record_count

    def forget_producers(self) -> None:
        """As after an unclean election, or when the id expired, by a broker that notices."""
        self.insists = True
        self.producers.clear()
        self.sent.clear()


class Logs:
    """Answers Produce; `trouble` may say otherwise for a request, before or after it was carried
    out.
    """

    def __init__(self, fake: FakeCluster) -> None:
        self.by_partition: dict[tuple[str, int], Log] = {}
        self.before: list[Any] = []
        self.after: list[Any] = []
        fake.on("produce", self.produce)
        fake.on("init_producer_id", {"producer_id": 1000, "producer_epoch": 0})

    def __getitem__(self, partition: int) -> Log:
        return self.by_partition.setdefault(("orders", partition), Log())

    def produce(self, request: SimpleNamespace) -> Any:
        before = self.before.pop(0) if self.before else None
        if isinstance(before, int):
            return self.answer(request.body, lambda *_: (before, -1))
        if before is not None:
            return before
        answer = self.answer(
            request.body, lambda topic, index, data: self._log(topic, index).append(data)
        )
        after = self.after.pop(0) if self.after else None
        return answer if after is None else after

    def _log(self, topic: str, index: int) -> Log:
        return self.by_partition.setdefault((topic, index), Log())

    def answer(self, body: Any, of: Any) -> dict[str, Any]:
        responses = []
        for topic in body.topic_data:
            partitions = []
            for each in topic.partition_data:
                error, offset = of(topic.name, each.index, each.records)
                partitions.append({"index": each.index, "error_code": error, "base_offset": offset})
            responses.append({"name": topic.name, "partition_responses": partitions})
        return {"responses": responses}


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(nodes=2, topics={"orders": 2}) as cluster:
        yield cluster


@pytest.fixture
def logs(fake: FakeCluster) -> Logs:
    return Logs(fake)


@pytest.fixture
async def cluster(fake: FakeCluster) -> AsyncIterator[Cluster]:
    async with Cluster(fake.config()) as opened:
        yield opened


async def send(producer: Producer, count: int, first: int = 0, partition: int = 0) -> list[Any]:
    return [
        await producer.send("orders", b"%d" % n, partition=partition)
        for n in range(first, first + count)
    ]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("version", range(3, 13))
async def test_every_version_of_produce(
    fake: FakeCluster, logs: Logs, cluster: Cluster, version: int
) -> None:
    for broker in fake.brokers:
        broker.versions["produce"] = (0, version)
    async with Producer(cluster) as producer:
        deliveries = await send(producer, 5)
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2, 3, 4]
    assert {request.__version__ for request in fake.asked("produce")} == {version}


async def test_zstd_needs_a_broker_that_knows_it(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    for broker in fake.brokers:
        broker.versions["produce"] = (0, 6)
    async with Producer(cluster, compression="zstd") as producer:
        (delivery,) = await send(producer, 1)
        with pytest.raises(
            UnsupportedVersionError,
            match=("produce v7 to v12 is needed, the broker speaks v0 to v6"),
        ):
            await delivery


@pytest.mark.parametrize("code", [NOT_ENOUGH_REPLICAS, 20, 6, 5, 3, 7, 56])
async def test_errors_that_pass_are_tried_again_in_order(
    logs: Logs, cluster: Cluster, code: int
) -> None:
    logs.before = [code, None, code]
    async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
        deliveries = await send(producer, 40)
        assert [(await delivery).offset for delivery in deliveries] == list(range(40))
    assert logs[0].values == numbers(40)


@pytest.mark.parametrize("trouble", [HANG_UP, HANG])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_that_breaks_costs_nothing_twice(
    fake: FakeCluster, logs: Logs, trouble: Any, when: str
) -> None:
    setattr(logs, when, [None, trouble])
    async with Cluster(fake.config(request_timeout_ms=60)) as cluster:
        async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
            for delivery in await send(producer, 40):
                await delivery
        assert logs[0].values == numbers(40)


async def test_a_leader_that_moves(fake: FakeCluster, logs: Logs, cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=0) as producer:
        for delivery in await send(producer, 3):
            await delivery
        fake.lead("orders", 0, node=1, epoch=1)
        fake.brokers[0].on("produce", lambda r: logs.answer(r.body, lambda *_: (6, -1)))
        for delivery in await send(producer, 3, 3):
            await delivery
    assert logs[0].values == numbers(6)
    assert fake.brokers[1].asked("produce")


async def test_without_idempotence_one_batch_is_in_flight(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    logs.before = [NOT_ENOUGH_REPLICAS, None, NOT_ENOUGH_REPLICAS]
    async with Producer(cluster, enable_idempotence=False, batch_size=150, linger_ms=0) as producer:
        for delivery in await send(producer, 40):
            await delivery
    assert logs[0].values == numbers(40)


async def test_several_batches_are_in_flight(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    gate = asyncio.Event()
    plain = logs.produce

    async def produce(request: SimpleNamespace) -> Any:
        await gate.wait()
        return plain(request)

    async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
        await (await send(producer, 1))[0]
        fake.on("produce", produce)
        deliveries = await send(producer, 200, 1)
        (purpose,) = [each for each in cluster.purposes if each.startswith("produce")]
        connection = await cluster.connection(0, purpose)
        async with asyncio.timeout(30):
            while connection.in_flight < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # enough for a sixth to come, if it were sent
        assert connection.in_flight == 5
        gate.set()
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 201))


async def test_the_first_batch_goes_alone(logs: Logs, cluster: Cluster) -> None:
    """A broker takes any sequence of a producer that is new to it: one that overtook the first
    would stay before it.
    """
    logs.before = [3]
    async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
        await send(producer, 100)
    assert logs[0].values == numbers(100)


async def test_no_batch_is_due_while_batches_with_old_sequences_are_in_flight() -> None:
    """Nothing could be taken then: a sender that tried again at once would do nothing else."""
    partition = ProducePartition(TopicPartition("orders", 0), 5)
    for number in range(2):
        batch = ProduceBatch(partition.tp, number, Codec.NONE, 0.0, 0)
        batch.append(None, b"value", (), 0)
        batch.close()
        partition.waiting.append(batch)
    sent = partition.next_batch(ProducerId(1, 0))
    assert sent is not None
    partition.reset_sequences()
    assert partition.next_batch(ProducerId(1, 1)) is None
    assert partition.due(0.0, skip_linger=True) == float("inf")
    partition.succeeded(sent)
    assert partition.due(0.0, skip_linger=True) == 0.0


async def test_a_broker_that_lost_the_sequences(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    """The producer goes on under the next epoch; nothing is lost, or appended twice, that was
    acknowledged.
    """
    async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
        for delivery in [*await send(producer, 30), *await send(producer, 5, partition=1)]:
            await delivery
        logs[0].forget_producers()
        for delivery in [*await send(producer, 30, 30), *await send(producer, 5, 5, partition=1)]:
            await delivery
    assert logs[0].values == numbers(60)
    assert logs[1].values == numbers(10)
    assert len(fake.asked("init_producer_id")) == 1


async def test_a_producer_id_that_is_not_taken_any_more(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    async with Producer(cluster, linger_ms=0) as producer:
        await (await send(producer, 1))[0]
        logs.before = [47]
        fake.on("init_producer_id", {"producer_id": 2000, "producer_epoch": 0})
        await (await send(producer, 1, 1))[0]
    assert logs[0].values == numbers(2)
    assert 2000 in logs[0].producers


async def test_a_refused_batch_does_not_stop_those_behind_it(logs: Logs, cluster: Cluster) -> None:
    logs.before = [87]
    async with Producer(cluster, batch_size=150, linger_ms=0) as producer:
        deliveries = await send(producer, 40)
        outcomes = await asyncio.gather(*(_outcome(delivery) for delivery in deliveries))
    lost = [n for n, each in enumerate(outcomes) if isinstance(each, KafkaError)]
    assert lost
    assert lost == list(range(len(lost)))
    assert logs[0].values == numbers(40)[len(lost) :]


async def _outcome(delivery: Any) -> Any:
    try:
        return await delivery
    except KafkaError as error:
        return error


async def test_a_record_not_delivered_in_time_raises_with_the_last_error(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    logs.before = [NOT_ENOUGH_REPLICAS] * 1000
    async with Producer(cluster, delivery_timeout_ms=80) as producer:
        (delivery,) = await send(producer, 1)
        told = (
            r"orders-0: 1 records not delivered in 0.08 s; \d+ attempts, the last: "
            r"NOT_ENOUGH_REPLICAS: orders-0"
        )
        with pytest.raises(DeliveryTimeoutError, match=told) as info:
            await delivery
        assert info.value.topic_partition == ("orders", 0)
        logs.before.clear()
        assert (await (await send(producer, 1))[0]).offset == 0


async def test_a_partition_without_a_leader_is_waited_for(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    fake.lead("orders", 0, node=-1, epoch=0)
    async with Producer(cluster) as producer:
        (delivery,) = await send(producer, 1)
        await asyncio.sleep(0.03)
        fake.lead("orders", 0, node=1, epoch=1)
        assert (await delivery).offset == 0


async def test_a_partition_that_never_gets_a_leader(fake: FakeCluster, logs: Logs) -> None:
    fake.lead("orders", 0, node=-1, epoch=0)
    config = fake.config(default_api_timeout_ms=40)
    async with Cluster(config) as cluster, Producer(cluster, delivery_timeout_ms=100) as producer:
        (delivery,) = await send(producer, 1)
        with pytest.raises(
            DeliveryTimeoutError, match=("it was never sent, the last: leader of orders-0: gave up")
        ):
            await delivery


async def test_no_producer_id_to_be_had(fake: FakeCluster, logs: Logs, cluster: Cluster) -> None:
    fake.on("init_producer_id", {"error_code": 31, "producer_id": -1, "producer_epoch": -1})
    async with Producer(cluster) as producer:
        (delivery,) = await send(producer, 1)
        with pytest.raises(KafkaError, match=r"CLUSTER_AUTHORIZATION_FAILED.*grant it") as info:
            await delivery
        assert info.value.code is ErrorCode.cluster_authorization_failed


async def test_a_broker_without_idempotence(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    for broker in fake.brokers:
        del broker.versions["init_producer_id"]
    async with Producer(cluster) as producer:
        (delivery,) = await send(producer, 1)
        with pytest.raises(UnsupportedVersionError, match="set enable_idempotence=False"):
            await delivery


async def test_a_topic_that_is_not_there(fake: FakeCluster, logs: Logs, cluster: Cluster) -> None:
    async with Producer(cluster, max_block_ms=30) as producer:
        with pytest.raises(
            GaveUpError, match=(r"metadata of topic 'nowhere'.*UNKNOWN_TOPIC_OR_PARTITION")
        ):
            await producer.send("nowhere", b"x")


async def test_closing_does_not_wait_for_a_broker_that_hangs(
    fake: FakeCluster, logs: Logs, cluster: Cluster
) -> None:
    fake.on("produce", lambda _request: HANG)
    producer = Producer(cluster, linger_ms=0)
    (delivery,) = await send(producer, 1)
    async with asyncio.timeout(20):
        with pytest.raises(ExceptionGroup, match="1 of orders-0"):
            await producer.close(timeout_ms=30)
    with pytest.raises(DeliveryTimeoutError, match="orders-0: the producer was closed"):
        await delivery


@pytest.mark.parametrize("turns", range(1, 12))
async def test_closing_that_is_cancelled_ends_all_the_same(
    fake: FakeCluster, logs: Logs, turns: int
) -> None:
    """As by anyio, which cancels again in each turn."""
    fake.on("produce", lambda _request: HANG)
    producer = Producer(fake.config(), linger_ms=0)
    (delivery,) = await send(producer, 1)
    closing = asyncio.create_task(producer.close(timeout_ms=0))
    for _ in range(turns):
        await asyncio.sleep(0)
    while not closing.done():
        closing.cancel()
        await asyncio.sleep(0)
    assert producer.cluster.purposes == frozenset()
    async with asyncio.timeout(5):
        with pytest.raises(DeliveryTimeoutError, match="orders-0: the producer was closed"):
            await delivery


def test_a_loop_that_ends_tells_what_an_open_producer_loses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leave_open() -> None:
        async with FakeCluster(topics={"orders": 1}) as fake:
            Logs(fake)
            await send(Producer(fake.config(), linger_ms=60_000), 3)

    asyncio.run(leave_open())
    assert "3 records were not delivered: 3 of orders-0" in caplog.text
    assert "the event loop ended before the producer was closed" in caplog.text


def test_a_loop_that_ends_does_not_wait_for_a_producer_in_another_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def produce(fake: FakeCluster, queued: asyncio.Event) -> None:
        async with Producer(fake.config(), linger_ms=60_000) as producer:
            await send(producer, 3)
            queued.set()
            await asyncio.Event().wait()

    async def main() -> None:
        async with FakeCluster(topics={"orders": 1}) as fake:
            Logs(fake)
            queued = asyncio.Event()
            task = asyncio.create_task(produce(fake, queued))
            await queued.wait()
            assert not task.done()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "3 records were not delivered: 3 of orders-0" in caplog.text


async def test_a_delivery_ends_in_time_though_the_broker_hangs(
    fake: FakeCluster, logs: Logs
) -> None:
    fake.on("produce", lambda _request: HANG)
    loop = asyncio.get_running_loop()
    async with (
        Cluster(fake.config(request_timeout_ms=60_000)) as cluster,
        Producer(cluster, delivery_timeout_ms=3_000) as producer,
    ):
        (delivery,) = await send(producer, 1)
        began = loop.time()
        with pytest.raises(DeliveryTimeoutError):
            await delivery
        assert loop.time() - began < 4.5


async def test_refused_credentials_are_told(
    fake: FakeCluster, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Cluster(fake.config()) as cluster, Producer(cluster) as producer:
        await (await send(producer, 1))[0]

        async def refused(*_: Any) -> Any:
            raise AuthenticationError("no")

        fake.brokers[0].hang_up()
        await asyncio.sleep(0.01)
        monkeypatch.setattr(Connection, "open", refused)
        with pytest.raises(AuthenticationError):
            await (await send(producer, 1))[0]


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    before=st.lists(st.sampled_from([None, None, NOT_ENOUGH_REPLICAS, 6, HANG_UP]), max_size=12),
    after=st.lists(st.sampled_from([None, None, HANG_UP]), max_size=12),
    moves=st.lists(st.integers(0, 1), max_size=4),
    seed=st.integers(0, 99),
)
async def test_every_record_is_stored_once_and_in_order_whatever_fails(
    before: list[Any], after: list[Any], moves: list[int], seed: int
) -> None:
    async with FakeCluster(nodes=2, topics={"orders": 2}) as fake:
        logs = Logs(fake)
        logs.before, logs.after = list(before), list(after)
        chance = random.Random(seed)
        async with (
            Cluster(fake.config()) as cluster,
            Producer(cluster, batch_size=200, linger_ms=0) as producer,
        ):
            deliveries = []
            for n in range(120):
                deliveries.append(await producer.send("orders", b"%d" % n, partition=n % 2))
                if chance.random() < 0.05:
                    await asyncio.sleep(0.001)
                    if moves:
                        fake.lead("orders", n % 2, node=moves.pop(), epoch=n)
            offsets = [(await delivery).offset for delivery in deliveries]
        for partition in (0, 1):
            assert logs[partition].values == [b"%d" % n for n in range(partition, 120, 2)]
            assert offsets[partition::2] == list(range(60))


async def test_a_batch_that_cannot_be_encoded_fails_alone(logs: Logs, cluster: Cluster) -> None:
    async with asyncio.timeout(60), Producer(cluster, linger_ms=20) as producer:
        payload = batches.build([batches.Record(None, b"bad")])[HEADER_SIZE:]
        tp = TopicPartition("orders", 0)
        bad = await producer.send_encoded(tp, payload, 1, base_timestamp=2**63, max_timestamp=2**63)
        with pytest.raises(struct.error):
            await bad
        (later,) = await send(producer, 1)
        await later
    assert logs[0].values == numbers(1)


async def test_a_token_that_is_not_to_be_had_at_first(fake: FakeCluster, logs: Logs) -> None:
    asked = []

    def token() -> str:
        asked.append(1)
        if len(asked) == 2:
            raise RuntimeError("503")
        return "token"

    fake.on("sasl_handshake", {"mechanisms": ["OAUTHBEARER"]})
    fake.on("sasl_authenticate", {"auth_bytes": b""})
    security = Security(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token=token)
    async with (
        asyncio.timeout(60),
        Cluster(fake.config(security=security)) as cluster,
        Producer(cluster) as producer,
    ):
        for delivery in await send(producer, 3):
            await delivery
    assert len(asked) > 2
    assert logs[0].values == numbers(3)


async def test_a_partition_without_a_leader_holds_up_no_other(
    fake: FakeCluster, logs: Logs
) -> None:
    fake.lead("orders", 0, node=-1, epoch=1)
    fake.lead("orders", 1, node=0, epoch=1)
    async with (
        asyncio.timeout(60),
        Cluster(fake.config(retry_backoff_ms=50, retry_backoff_max_ms=200)) as cluster,
        Producer(cluster, linger_ms=0) as producer,
    ):
        await send(producer, 1)
        await asyncio.sleep(0.3)  # its leader is being looked for
        logs.before.append(int(ErrorCode.not_leader_or_follower))
        (other,) = await send(producer, 1, partition=1)
        await asyncio.sleep(0.02)
        fake.lead("orders", 1, node=1, epoch=2)
        await other
        fake.lead("orders", 0, node=0, epoch=2)
    assert logs[0].values == logs[1].values == numbers(1)


async def test_a_batch_that_failed_takes_no_memory() -> None:
    """The producer keeps it until `flush` has raised its error."""
    batch = ProduceBatch(TopicPartition("orders", 0), 1, Codec.NONE, 0.0, 1000)
    batch.append(None, b"x" * 10_000, (), 1000)
    batch.close()
    assert batch.sent_size > 10_000
    batch.fail(KafkaError(ErrorCode.invalid_record))
    assert batch.sent_size == HEADER_SIZE


async def test_an_error_that_nobody_awaited_is_raised_by_flush(
    logs: Logs, cluster: Cluster
) -> None:
    logs.before += [int(ErrorCode.invalid_record)] * 10
    async with Producer(cluster, linger_ms=0) as producer:
        deliveries = [await producer.send("orders", b"x" * 10_000) for _ in range(10)]
        with pytest.raises(ExceptionGroup, match="10 records were not delivered"):
            await producer.flush()
        assert all(delivery.done() for delivery in deliveries)


async def test_no_room_for_too_long(fake: FakeCluster, logs: Logs, cluster: Cluster) -> None:
    gate = asyncio.Event()

    async def produce(request: SimpleNamespace) -> Any:
        await gate.wait()
        return logs.produce(request)

    async with Producer(cluster, buffer_memory=3_000, batch_size=500, max_block_ms=30) as producer:
        await (await send(producer, 1))[0]
        fake.on("produce", produce)
        for _ in range(3):
            await producer.send("orders", bytes(500), partition=0)
        with pytest.raises(BufferFullError, match=r"orders-0: no room for a record within 0\.03 s"):
            await producer.send("orders", bytes(2000), partition=0)
        gate.set()
