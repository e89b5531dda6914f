"""Reading while leaders move, brokers fail, topics go, and answers are wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from client.fake_cluster import HANG, HANG_UP, FakeCluster
from kohort.client.cluster.cluster import Cluster
from kohort.client.errors import (
    GaveUpError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
)
from kohort.client.fetch.fetcher import EARLIEST, LATEST, Fetcher
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol import batches
from kohort.protocol.batches import CONTROL, TRANSACTIONAL, Record
from kohort.types import TopicPartition

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Log:
    """The records of all brokers' fetch responses, unless replaced: one record per offset."""

    def __init__(self, fake: FakeCluster) -> None:
        self.fake = fake
        self.end = 3
        self.session = 0
        self.errors: list[int] = []
        """Of the next answers, one each."""

    def records(self, offset: int) -> bytes:
        return b"".join(
            batches.build([Record(None, b"%d" % each, (), 1)], base_offset=each)
            for each in range(offset, self.end)
        )

    async def fetch(self, request: SimpleNamespace) -> Any:
        body = request.body
        if self.errors:
            return self.answer(
                body, request.version, lambda _offset: {"error_code": self.errors.pop(0)}
            )
        if not any(
            partition.fetch_offset < self.end
            for topic in body.topics
            for partition in topic.partitions
        ):
            await asyncio.sleep(0.02)
        return self.answer(body, request.version, lambda offset: {"records": self.records(offset)})

    def answer(
        self, body: Any, version: int, of: Callable[[int], dict[str, Any]]
    ) -> dict[str, Any]:
        responses = [
            {
                **({"topic_id": topic.topic_id} if version >= 13 else {"topic": topic.topic}),
                "partitions": [
                    {
                        "partition_index": partition.partition,
                        "high_watermark": self.end,
                        "last_stable_offset": self.end,
                        "log_start_offset": 0,
                        "aborted_transactions": None,
                        **of(partition.fetch_offset),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in body.topics
        ]
        return {"session_id": self.session, "responses": responses}


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(nodes=2, topics={"orders": 2}) as cluster:
        yield cluster


@pytest.fixture
def log(fake: FakeCluster) -> Log:
    made = Log(fake)
    fake.on("fetch", made.fetch)
    return made


@pytest.fixture
async def cluster(fake: FakeCluster) -> AsyncIterator[Cluster]:
    async with Cluster(fake.config()) as opened:
        yield opened


async def values(fetcher: Fetcher, tp: TopicPartition, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            batch = await fetcher.next(tp, max_wait_ms=2_000)
            found += [record.value for record in batch] if batch else []
    return found


@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch_works_in_every_version(
    fake: FakeCluster, log: Log, cluster: Cluster, version: int
) -> None:
    for broker in fake.brokers:
        broker.versions["fetch"] = (0, version)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 1)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]
    assert {request.__version__ for request in fake.asked("fetch")} == {version}


async def test_without_topic_ids_requests_have_names(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    for broker in fake.brokers:
        broker.versions["metadata"] = (0, 9)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
    assert {request.__version__ for request in fake.asked("fetch")} == {12}


@pytest.mark.parametrize("code", [6, 5, 74, 75, 9, 56, 78, 3, 100, 103, -1, 7])
async def test_retriable_errors_are_retried(log: Log, cluster: Cluster, code: int) -> None:
    log.errors = [code, code]
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        assert await values(fetcher, TP, 3) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("code", [29, 2, 43, 87])
async def test_fatal_errors_are_raised_with_the_partition(
    log: Log, cluster: Cluster, code: int
) -> None:
    log.errors = [code]
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        for _ in range(2):
            with pytest.raises(KafkaError, match="fetching orders-0 at offset 0") as info:
                await fetcher.next(TP, max_wait_ms=1_000)
        assert info.value.code == code
        fetcher.seek(TP, 1)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]


@pytest.mark.parametrize("method", ["request_leader", "connection"])
async def test_a_fault_of_the_client_itself_is_raised_and_stops_nothing_else(
    log: Log,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    """`request_leader` is called by the position resolver, `connection` by the broker fetcher."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    async with Fetcher(cluster) as fetcher:
        with monkeypatch.context() as patched:
            patched.setattr(cluster, method, broken)
            fetcher.add(TP, 0)
            with pytest.raises(ZeroDivisionError):
                await fetcher.next(TP, max_wait_ms=30_000)
        fetcher.seek(TP, 0)
        assert await values(fetcher, TP, 3) == [b"0", b"1", b"2"]
    assert "a fault" in caplog.text


async def test_batches_before_an_error_are_read_first(log: Log, cluster: Cluster) -> None:
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        await asyncio.sleep(0.03)
        log.errors = [29] * 9
        await asyncio.sleep(0.05)
        assert await values(fetcher, TP, 3) == [b"0", b"1", b"2"]
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await fetcher.next(TP, max_wait_ms=1_000)


async def test_a_leader_that_moved_is_found(fake: FakeCluster, log: Log, cluster: Cluster) -> None:
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
        fake.lead("orders", 0, node=1, epoch=1)
        fake.brokers[0].on(
            "fetch", lambda r: log.answer(r.body, r.version, lambda _offset: {"error_code": 6})
        )
        fake.on("offset_for_leader_epoch", epoch_ends(log, lambda: (0, 99)))
        log.end = 5
        assert await values(fetcher, TP, 2) == [b"3", b"4"]
        assert [each.current_leader_epoch for each in _asked_of(fake.brokers[1], 0)][-1] == 1


def _asked_of(broker: Any, partition: int) -> list[Any]:
    return [
        each
        for request in broker.asked("fetch")
        for topic in request.topics
        for each in topic.partitions
        if each.partition == partition
    ]


def epoch_ends(log: Log, end: Callable[[], tuple[int, int]], asked: list[int] | None = None) -> Any:
    def answer(request: SimpleNamespace) -> dict[str, Any]:
        if asked is not None:
            asked.extend(
                partition.leader_epoch
                for topic in request.body.topics
                for partition in topic.partitions
            )
        epoch, offset = end()
        return {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition": partition.partition,
                            "leader_epoch": epoch,
                            "end_offset": offset,
                        }
                        for partition in topic.partitions
                    ],
                }
                for topic in request.body.topics
            ]
        }

    return answer


@pytest.mark.parametrize("cut_off", [HANG_UP, "stopped"])
async def test_reading_continues_after_a_broker_restart(
    fake: FakeCluster, log: Log, cluster: Cluster, cut_off: Any
) -> None:
    async with Fetcher(cluster) as fetcher:
        fetcher.assign({TP: 0, OTHER: 0})
        await values(fetcher, TP, 3)
        await values(fetcher, OTHER, 3)
        if cut_off is HANG_UP:
            fake.brokers[0].on("fetch", lambda _request: HANG_UP)
        else:
            await fake.brokers[0].stop()
        log.end = 4
        # The partition of the other broker goes on.
        assert await values(fetcher, OTHER, 1) == [b"3"]
        assert await fetcher.next(TP, max_wait_ms=50) is None
        if cut_off is HANG_UP:
            fake.brokers[0].on("fetch", log.fetch)
        else:
            await fake.brokers[0].start()
        assert await values(fetcher, TP, 1) == [b"3"]


async def test_a_hanging_broker_is_an_error_after_the_timeout(fake: FakeCluster, log: Log) -> None:
    fake.brokers[0].on("fetch", lambda _request: HANG)
    async with (
        Cluster(fake.config(request_timeout_ms=20)) as cluster,
        Fetcher(cluster, fetch_max_wait_ms=10, patience_ms=100) as fetcher,
    ):
        fetcher.assign({TP: 0, OTHER: 0})
        assert await values(fetcher, OTHER, 3)
        with pytest.raises(
            GaveUpError,
            match=(r"reading orders-0 at offset 0: gave up after .*fetch got no response"),
        ):
            await fetcher.next(TP, max_wait_ms=3_000)
        fake.brokers[0].on("fetch", log.fetch)
        assert await values(fetcher, TP, 3)


async def test_a_missing_topic_is_an_error_after_a_while_and_read_once_created(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    new = TopicPartition("new", 0)
    async with Fetcher(cluster, patience_ms=40) as fetcher:
        fetcher.add(new, 0)
        with pytest.raises(GaveUpError, match="UNKNOWN_TOPIC_OR_PARTITION: topic new") as info:
            await fetcher.next(new, max_wait_ms=3_000)
        assert info.value.code is ErrorCode.unknown_topic_or_partition
        fake.topics["new"] = type(fake.topics["orders"])({0: (0, 0)})
        assert await values(fetcher, new, 3)


async def test_a_deleted_topic_is_an_error(fake: FakeCluster, log: Log, cluster: Cluster) -> None:
    async with Fetcher(cluster, patience_ms=40) as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
        del fake.topics["orders"]
        fake.on(
            "fetch", lambda r: log.answer(r.body, r.version, lambda _offset: {"error_code": 100})
        )
        with pytest.raises(GaveUpError, match="UNKNOWN_TOPIC_OR_PARTITION: topic orders"):
            await fetcher.next(TP, max_wait_ms=3_000)


@pytest.mark.parametrize("code", [100, 1, 3])
async def test_a_recreated_topic_is_an_error(
    fake: FakeCluster, log: Log, cluster: Cluster, code: int
) -> None:
    """Also when all that tells of it is that the offset is out of range, and a policy would go on
    from the first.
    """
    async with Fetcher(cluster, out_of_range="earliest") as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
        fake.topics["orders"].id = uuid4()
        log.errors = [code]
        for _ in range(2):
            with pytest.raises(TopicRecreatedError, match="topic orders was deleted and recreated"):
                await fetcher.next(TP, max_wait_ms=3_000)
        fetcher.remove(TP)
        fetcher.add(TP, 1)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]


async def test_offset_queries_are_retried_until_they_succeed(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    codes = iter((6, 5, 0))

    def offsets(request: SimpleNamespace) -> dict[str, Any]:
        code = next(codes, 0)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": partition.partition_index,
                            "error_code": code,
                            "offset": 2,
                        }
                        for partition in topic.partitions
                    ],
                }
                for topic in request.body.topics
            ]
        }

    fake.on("list_offsets", offsets)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, LATEST)
        assert await values(fetcher, TP, 1) == [b"2"]
        assert [
            partition.timestamp
            for r in fake.asked("list_offsets")
            for t in r.topics
            for partition in t.partitions
        ] == [-1] * 3


# Truncation (KIP-320)


async def test_an_offset_with_an_epoch_is_validated_first(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    asked: list[int] = []
    fake.lead("orders", 0, node=0, epoch=4)
    fake.on("offset_for_leader_epoch", epoch_ends(log, lambda: (2, 10), asked))
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 1, leader_epoch=2)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]
    assert asked == [2]


async def test_truncated_records_are_an_error(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    fake.lead("orders", 0, node=0, epoch=4)
    fake.on("offset_for_leader_epoch", epoch_ends(log, lambda: (2, 1)))
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 2, leader_epoch=3)
        with pytest.raises(LogTruncatedError, match="orders-0 was truncated to offset 1") as info:
            await fetcher.next(TP, max_wait_ms=2_000)
        fetcher.seek(TP, info.value.end_offset)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]


async def test_a_fetcher_with_a_reset_policy_continues_at_the_truncation(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    fake.lead("orders", 0, node=0, epoch=4)
    fake.on("offset_for_leader_epoch", epoch_ends(log, lambda: (2, 1)))
    async with Fetcher(cluster, out_of_range="latest") as fetcher:
        fetcher.add(TP, 2, leader_epoch=3)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]


async def test_a_diverging_epoch_in_a_response_truncates(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
        diverging = {"diverging_epoch": {"epoch": 0, "end_offset": 1}, "records": None}
        fake.on("fetch", lambda r: log.answer(r.body, r.version, lambda _offset: diverging))
        with pytest.raises(LogTruncatedError):
            await fetcher.next(TP, max_wait_ms=2_000)


async def test_offsets_are_not_validated_with_old_brokers(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    fake.lead("orders", 0, node=0, epoch=4)
    for broker in fake.brokers:
        del broker.versions["offset_for_leader_epoch"]
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 1, leader_epoch=2)
        assert await values(fetcher, TP, 2) == [b"1", b"2"]


# Sessions, answers


@pytest.mark.parametrize("code", [70, 71, 106])
async def test_a_lost_session_is_replaced(
    fake: FakeCluster, log: Log, cluster: Cluster, code: int
) -> None:
    log.session = 9
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        await values(fetcher, TP, 3)
        broker = fake.brokers[0]
        answers = iter([{"error_code": code, "session_id": 0, "responses": []}])

        async def once(request: SimpleNamespace) -> Any:
            return next(answers, None) or await log.fetch(request)

        broker.on("fetch", once)
        log.end = 4
        assert await values(fetcher, TP, 1) == [b"3"]
        assert [request.session_epoch for request in broker.asked("fetch")].count(0) >= 2


@pytest.mark.parametrize("answer", [b"\0\0\0\x0c" + b"\0" * 12, HANG_UP])
async def test_a_malformed_response_is_followed_by_another_request(
    fake: FakeCluster, log: Log, cluster: Cluster, answer: Any
) -> None:
    answers = iter([answer, answer])

    async def broken(request: SimpleNamespace) -> Any:
        return next(answers, None) or await log.fetch(request)

    fake.on("fetch", broken)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        assert await values(fetcher, TP, 3) == [b"0", b"1", b"2"]


async def test_immediate_empty_responses_are_followed_by_pauses(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    fake.on("fetch", lambda r: log.answer(r.body, r.version, lambda _offset: {"records": None}))
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        assert await fetcher.next(TP, max_wait_ms=150) is None
    assert len(fake.asked("fetch")) < 30


async def test_records_with_a_wrong_crc_are_an_error(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    broken = bytearray(log.records(0))
    broken[-2] ^= 1
    fake.on(
        "fetch",
        lambda r: log.answer(
            r.body,
            r.version,
            lambda offset: {"records": bytes(broken) if offset < 2 else bytes(broken[-69:])},
        ),
    )
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        assert await values(fetcher, TP, 2) == [b"0", b"1"]
        for _ in range(2):
            with pytest.raises(
                KafkaError, match=(r"CORRUPT_MESSAGE: orders-0, batch at offset 2: .*CRC")
            ):
                await fetcher.next(TP, max_wait_ms=1_000)
    async with Fetcher(cluster, check_crcs=False) as trusting:
        trusting.add(TP, 0)
        assert len(await values(trusting, TP, 3)) == 3


async def test_out_of_range_has_the_log_start_offset(log: Log, cluster: Cluster) -> None:
    log.errors = [1]
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, 0)
        with pytest.raises(OffsetOutOfRangeError, match="the log begins at 0"):
            await fetcher.next(TP, max_wait_ms=1_000)


async def test_read_committed_skips_aborted_records(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    def made(offset: int, record: Record, kind: int = TRANSACTIONAL) -> bytes:
        return batches.build(
            [record], base_offset=offset, producer_id=5, producer_epoch=0, attributes=kind
        )

    def marker(kind: bytes) -> Record:
        return Record(b"\0\0\0" + kind, bytes(6), (), 1)

    content = (
        made(0, Record(None, b"aborted", (), 1))
        + made(1, marker(b"\0"), TRANSACTIONAL | CONTROL)
        + made(2, Record(None, b"in", (), 1))
        + made(3, marker(b"\1"), TRANSACTIONAL | CONTROL)
    )
    log.end = 4
    aborted = [{"producer_id": 5, "first_offset": 0}]

    async def fetch(request: SimpleNamespace) -> Any:
        if all(
            partition.fetch_offset >= 4
            for topic in request.body.topics
            for partition in topic.partitions
        ):
            await asyncio.sleep(0.02)
        return log.answer(
            request.body,
            request.version,
            lambda offset: {
                "records": content if offset < 4 else None,
                "aborted_transactions": aborted,
            },
        )

    fake.on("fetch", fetch)
    async with Fetcher(cluster, isolation="read_committed") as fetcher:
        fetcher.add(TP, 0)
        assert await values(fetcher, TP, 1) == [b"in"]
        assert fetcher.position(TP) == 4
        assert fetcher.lag(TP) == 0
    assert {request.isolation_level for request in fake.asked("fetch")} == {1}


async def test_earliest_of_an_unknown_topic_does_not_delay_others(
    fake: FakeCluster, log: Log, cluster: Cluster
) -> None:
    fake.on("list_offsets", lambda _request: HANG)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TopicPartition("nowhere", 0), EARLIEST)
        fetcher.add(OTHER, EARLIEST)
        fetcher.add(TP, 0)
        async with asyncio.timeout(20):
            assert await values(fetcher, TP, 3)


@pytest.mark.usefixtures("log")
async def test_an_offset_query_is_retried_after_a_broker_restart(fake: FakeCluster) -> None:
    """For longer than a request may take: it is asked again, without the reader having to seek."""
    found = {"partition_index": 0, "offset": 0, "leader_epoch": -1}
    is_there = asyncio.Event()
    fake.on(
        "list_offsets",
        lambda _: (
            {"topics": [{"name": "orders", "partitions": [found]}]} if is_there.is_set() else HANG
        ),
    )
    async with Cluster(fake.config(request_timeout_ms=100)) as cluster, Fetcher(cluster) as fetcher:
        fetcher.add(TP, EARLIEST)
        await asyncio.sleep(0.4)
        is_there.set()
        batch = await fetcher.next(TP, max_wait_ms=5_000)
        assert batch is not None
        assert batch.records[0].offset == 0


async def test_the_failure_of_a_fetching_task_is_raised_in_all_waiting_calls(
    log: Log, cluster: Cluster
) -> None:
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TP, log.end)
        waiting = [
            asyncio.create_task(fetcher.next(TP, max_wait_ms=60_000)),
            asyncio.create_task(fetcher.next_any(max_wait_ms=60_000)),
        ]
        async with asyncio.timeout(60):
            await asyncio.sleep(1)
            _tasks("fetches from broker")[0].cancel()
            for each in (*waiting, fetcher.next(TP, max_wait_ms=0)):
                with pytest.raises(KohortError, match=r"the fetcher failed: .*cancelled") as raised:
                    await each
                assert isinstance(raised.value.__cause__, asyncio.CancelledError)


def _tasks(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith(name)]
