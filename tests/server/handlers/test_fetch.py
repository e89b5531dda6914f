"""Fetch v4-18: limits, errors, waiting, sessions. What Kafka 4.4 answers, but for whole batches
where it cuts them.
"""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from kohort.errors import ErrorCode
from kohort.log.base import Log
from kohort.protocol.batches import TRANSACTIONAL, Record, build, decode_records, iterate
from kohort.protocol.building import request
from kohort.protocol.messages import decode_request, encode
from kohort.server.handlers import fetch as fetch_handler
from kohort.types import Timestamp
from server.faulty_logs import EVERY_PARTITION, IO_ERROR
from server.handlers.bench import HandlerBench, Unread
from server.topic_deletion import delete_topic
from turns import BOUND_MS, longest_turn_ms
from waiting import turns

ALL = range(4, 19)
NONE = ErrorCode.none
WAIT_MS = 60_000
"""Longer than any test: what comes, comes because something happened."""


def ask_for(
    bench: HandlerBench, version: int, *partitions: dict[str, Any], topic: Any = "orders"
) -> list[dict[str, Any]]:
    asked = [
        {"fetch_offset": 0, "partition_max_bytes": 1 << 20} | partition for partition in partitions
    ]
    if version < 13:
        return [{"topic": topic, "partitions": asked}]
    found = bench.topics.get(topic) if isinstance(topic, str) else None
    return [{"topic_id": found.id if found else topic, "partitions": asked}]


def fields_for(
    bench: HandlerBench,
    version: int,
    partitions: tuple[dict[str, Any], ...],
    topic: Any,
    **fields: Any,
) -> dict[str, Any]:
    request = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1}
    topics = ask_for(bench, version, *partitions, topic=topic) if partitions else []
    return request | {"topics": topics} | fields


async def fetch(
    bench: HandlerBench,
    *partitions: dict[str, Any],
    version: int = 12,
    topic: Any = "orders",
    **fields: Any,
) -> Any:
    return await bench.ask(
        "fetch", version, **fields_for(bench, version, partitions, topic, **fields)
    )


def begin(
    bench: HandlerBench,
    *partitions: dict[str, Any],
    version: int = 12,
    topic: Any = "orders",
    **fields: Any,
) -> Any:
    """A fetch that waits: (exchange, task)."""
    fields = {"max_wait_ms": WAIT_MS} | fields
    return bench.begin("fetch", version, **fields_for(bench, version, partitions, topic, **fields))


def found(answer: Any) -> list[Any]:
    return [partition for topic in answer.responses for partition in topic.partitions]


def sizes(answer: Any) -> list[int]:
    """Batches of each partition."""
    return [len(list(iterate(partition.records))) for partition in found(answer)]


def p(index: int, offset: int = 0, **more: Any) -> dict[str, Any]:
    return {"partition": index, "fetch_offset": offset} | more


@pytest.fixture
def filled(bench: HandlerBench, topic: str) -> HandlerBench:
    """Five batches of ten records in partition 0, two in partition 1, none in partition 2."""
    for partition, batches in ((0, 5), (1, 2)):
        for _ in range(batches):
            bench.fill(topic, partition, records=10, size=100)
    return bench


def batch_size(bench: HandlerBench) -> int:
    return len(bench.topics.log("orders", 0).read(0, 1))  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ALL)
async def test_records_are_fetched_in_every_version(filled: HandlerBench, version: int) -> None:
    answer = await fetch(filled, p(0), p(1), p(2), version=version)
    (topic,) = answer.responses
    if version < 13:
        assert topic.topic == "orders"
    else:
        assert topic.topic_id == filled.topics.get("orders").id  # type: ignore[union-attr]
    assert getattr(answer, "error_code", NONE) is NONE
    assert getattr(answer, "session_id", 0) == 0
    assert [
        (partition.partition_index, partition.error_code, partition.high_watermark)
        for partition in topic.partitions
    ] == [
        (0, NONE, 50),
        (1, NONE, 20),
        (2, NONE, 0),
    ]
    assert [partition.last_stable_offset for partition in topic.partitions] == [50, 20, 0]
    assert [getattr(partition, "log_start_offset", 0) for partition in topic.partitions] == [
        0,
        0,
        0,
    ]
    assert sizes(answer) == [5, 2, 0]
    assert topic.partitions[2].records == b""
    assert [partition.aborted_transactions for partition in topic.partitions] == [None, None, None]


async def test_a_fetch_from_the_middle_of_a_batch_returns_all_of_it(filled: HandlerBench) -> None:
    (partition,) = found(await fetch(filled, p(0, 15)))
    assert [record.offset for record in decode_records(partition.records)] == list(range(10, 20))


async def test_read_committed_lists_no_aborted_transactions(filled: HandlerBench) -> None:
    answer = await fetch(filled, p(0), p(0, 99), p(9), isolation_level=1)
    # the last request for 0 counts
    assert [each.aborted_transactions for each in found(answer)] == [None, ()]
    (partition,) = found(await fetch(filled, p(0), isolation_level=1))
    assert partition.aborted_transactions == ()


class TestErrors:
    """They are answered at once, however long the client would wait."""

    @pytest.mark.parametrize("version", ALL)
    async def test_fetching_an_unknown_partition_is_an_error(
        self, filled: HandlerBench, version: int
    ) -> None:
        nowhere: Any = "nope" if version < 13 else uuid4()
        unknown = (
            ErrorCode.unknown_topic_or_partition if version < 13 else ErrorCode.unknown_topic_id
        )
        answer = await fetch(filled, p(0), topic=nowhere, version=version, max_wait_ms=WAIT_MS)
        (partition,) = found(answer)
        assert (partition.error_code, partition.high_watermark, partition.records) == (
            unknown,
            -1,
            b"",
        )
        assert partition.aborted_transactions == ()
        answer = await fetch(filled, p(3), p(-1), version=version, max_wait_ms=WAIT_MS)
        assert [each.error_code for each in found(answer)] == [
            ErrorCode.unknown_topic_or_partition
        ] * 2

    async def test_the_zero_topic_id(self, filled: HandlerBench) -> None:
        (partition,) = found(await fetch(filled, p(0), topic=UUID(int=0), version=13))
        assert partition.error_code is ErrorCode.unknown_topic_id

    @pytest.mark.parametrize("version", ALL)
    async def test_an_offset_out_of_range_is_an_error(
        self, filled: HandlerBench, version: int
    ) -> None:
        filled.topics.log("orders", 0).trim(10)  # type: ignore[union-attr]
        for offset in (-1, 9, 51):
            (partition,) = found(
                await fetch(filled, p(0, offset), version=version, max_wait_ms=WAIT_MS)
            )
            assert partition.error_code is ErrorCode.offset_out_of_range
            assert (partition.high_watermark, partition.last_stable_offset) == (-1, -1)
            assert partition.aborted_transactions is None
        for offset in (10, 50):
            (partition,) = found(await fetch(filled, p(0, offset), version=version))
            assert partition.error_code is NONE

    async def test_fetching_with_an_unknown_leader_epoch_is_an_error(
        self, filled: HandlerBench
    ) -> None:
        async def error(**epochs: int) -> ErrorCode:
            (partition,) = found(await fetch(filled, p(0, 5, **epochs)))
            return partition.error_code  # type: ignore[no-any-return]

        assert await error(current_leader_epoch=0, last_fetched_epoch=0) is NONE
        assert await error(current_leader_epoch=-1, last_fetched_epoch=-1) is NONE
        assert await error(current_leader_epoch=1) is ErrorCode.unknown_leader_epoch
        assert await error(last_fetched_epoch=1) is ErrorCode.offset_out_of_range

    @pytest.mark.parametrize(
        ("version", "who"),
        [(12, {"replica_id": 5}), (15, {"replica_state": {"replica_id": 1, "replica_epoch": 0}})],
    )
    async def test_a_fetch_of_a_follower_is_refused(
        self, filled: HandlerBench, version: int, who: dict[str, Any]
    ) -> None:
        (partition,) = found(await fetch(filled, p(0), version=version, **who))
        assert partition.error_code is ErrorCode.not_leader_or_follower

    async def test_one_error_does_not_keep_the_records_of_others_back(
        self, filled: HandlerBench
    ) -> None:
        answer = await fetch(filled, p(0, 51), p(1), max_wait_ms=WAIT_MS)
        assert [partition.error_code for partition in found(answer)] == [
            ErrorCode.offset_out_of_range,
            NONE,
        ]
        assert sizes(answer) == [0, 2]

    async def test_a_storage_that_fails(self, filled: HandlerBench) -> None:
        filled.directory.fail("fetch", EVERY_PARTITION, IO_ERROR)
        (partition,) = found(await fetch(filled, p(0)))
        assert partition.error_code is ErrorCode.kafka_storage_error


class TestLimits:
    async def test_the_first_batch_is_given_whatever_its_size_but_only_one(
        self, filled: HandlerBench
    ) -> None:
        for small in (10, 0, -1):
            assert sizes(await fetch(filled, p(0), p(1), max_bytes=small)) == [1, 0]
            assert sizes(
                await fetch(filled, *(p(i, partition_max_bytes=small) for i in (0, 1)))
            ) == [1, 0]

    async def test_an_empty_partition_does_not_use_up_the_first_batch(
        self, filled: HandlerBench
    ) -> None:
        assert sizes(await fetch(filled, p(2), p(0, 50), p(1), max_bytes=10)) == [0, 0, 1]

    async def test_a_fetch_returns_whole_batches_within_its_limits(
        self, filled: HandlerBench
    ) -> None:
        size = batch_size(filled)
        assert sizes(await fetch(filled, p(0, partition_max_bytes=2 * size + 9), p(1))) == [2, 2]
        assert sizes(await fetch(filled, p(0), p(1), max_bytes=6 * size + 9)) == [5, 1]
        answer = await fetch(filled, p(0), p(1), max_bytes=5 * size)
        assert sizes(answer) == [5, 0]
        assert found(answer)[1].high_watermark == 20

    async def test_the_brokers_own_limit(self) -> None:
        bench = HandlerBench(fetch_max_bytes=1_024)
        bench.controller.topics.create("orders", 1)
        for _ in range(20):
            bench.fill("orders", size=100)
        (partition,) = found(await fetch(bench, p(0)))
        assert 900 < len(partition.records) <= 1_024


class TestWaiting:
    async def test_an_append_ends_it(self, filled: HandlerBench) -> None:
        exchange, task = begin(filled, p(0, 50), p(1, 20))
        await turns(5)
        assert exchange.packed is None
        filled.fill("orders", 1)
        await asyncio.wait_for(task, 60)
        assert sizes(exchange.outcome) == [0, 1]
        assert [partition.high_watermark for partition in found(exchange.outcome)] == [50, 21]

    async def test_an_append_elsewhere_does_not(self, filled: HandlerBench) -> None:
        exchange, task = begin(filled, p(0, 50))
        filled.fill("orders", 1)
        await turns(5)
        assert exchange.packed is None
        task.cancel()

    async def test_the_time_is_up(self, filled: HandlerBench) -> None:
        answer = await fetch(filled, p(0, 50), max_wait_ms=3)
        assert [
            (partition.error_code, partition.high_watermark) for partition in found(answer)
        ] == [(NONE, 50)]

    @pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"max_wait_ms": -5}, {"min_bytes": 0}])
    async def test_a_fetch_without_max_wait_or_min_bytes_is_answered_at_once(
        self, filled: HandlerBench, fields: dict[str, Any]
    ) -> None:
        exchange, task = begin(filled, p(0, 50), **fields)
        assert task is None
        assert sizes(exchange.outcome) == [0]

    async def test_a_fetch_without_partitions_is_answered_at_once(
        self, filled: HandlerBench
    ) -> None:
        exchange, task = begin(filled)
        assert task is None
        assert exchange.outcome.responses == ()

    async def test_min_bytes_are_waited_for(self, filled: HandlerBench) -> None:
        size = batch_size(filled)
        exchange, task = begin(filled, p(0, 40), p(1, 20), min_bytes=3 * size)
        for partition in (1, 0):
            await turns(5)
            assert exchange.packed is None
            filled.fill("orders", partition, records=10, size=100)
        await asyncio.wait_for(task, 60)
        assert sizes(exchange.outcome) == [2, 1]

    async def test_a_fetch_returns_fewer_than_min_bytes_after_max_wait(
        self, filled: HandlerBench
    ) -> None:
        answer = await fetch(filled, p(0, 40), min_bytes=1 << 20, max_wait_ms=3)
        assert sizes(answer) == [1]

    async def test_a_fetch_does_not_wait_for_records_beyond_its_limits(
        self, filled: HandlerBench
    ) -> None:
        size = batch_size(filled)
        exchange, task = begin(
            filled, p(0, partition_max_bytes=2 * size + 50), min_bytes=2 * size + 50
        )
        assert task is None
        assert sizes(exchange.outcome) == [2]
        _, task = begin(filled, p(0, 30), p(1), min_bytes=3 * size, max_bytes=2 * size)
        assert task is None

    async def test_a_deleted_topic_ends_it(self, filled: HandlerBench) -> None:
        for version, code in (
            (12, ErrorCode.unknown_topic_or_partition),
            (13, ErrorCode.unknown_topic_id),
        ):
            filled.controller.topics.create("gone", 1)
            exchange, task = begin(filled, p(0), topic="gone", version=version)
            await turns(5)
            delete_topic(filled.controller, "gone")
            await asyncio.wait_for(task, 60)
            assert [partition.error_code for partition in found(exchange.outcome)] == [code]

    async def test_records_that_are_deleted_end_it(self, filled: HandlerBench) -> None:
        exchange, task = begin(filled, p(0, 40), min_bytes=1 << 20)
        await turns(5)
        filled.topics.log("orders", 0).trim(45)  # type: ignore[union-attr]
        await asyncio.wait_for(task, 60)
        assert [partition.error_code for partition in found(exchange.outcome)] == [
            ErrorCode.offset_out_of_range
        ]

    async def test_many_wait_for_one_append(self, filled: HandlerBench) -> None:
        waiting = [begin(filled, p(2)) for _ in range(20)]
        await turns(5)
        filled.fill("orders", 2)
        await asyncio.wait_for(asyncio.gather(*(task for _, task in waiting)), 60)
        assert all(sizes(exchange.outcome) == [1] for exchange, _ in waiting)

    async def test_a_fetch_that_gives_up_removes_its_callbacks(self, filled: HandlerBench) -> None:
        log = filled.topics.log("orders", 0)
        assert log is not None
        calls = 0

        def counted(callback: Any, register: Any = log.on_append) -> Any:
            nonlocal calls
            calls += 1
            stop = register(callback)

            def stopped() -> None:
                nonlocal calls
                calls -= 1
                stop()

            return stopped

        class Watched:
            on_append = staticmethod(counted)

            def __getattr__(self, name: str) -> Any:
                return getattr(log, name)

        filled.topics.get("orders").partitions = (Watched(),)  # type: ignore[union-attr,assignment]
        exchange, task = begin(filled, p(0, 50))
        await turns(5)
        assert calls == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert calls == 0
        assert exchange.packed is None


class TestSessions:
    async def open(
        self, bench: HandlerBench, *partitions: dict[str, Any], version: int = 12, **fields: Any
    ) -> int:
        answer = await fetch(bench, *partitions, version=version, session_epoch=0, **fields)
        assert answer.error_code is NONE
        return answer.session_id  # type: ignore[no-any-return]

    @pytest.mark.parametrize("version", range(7, 19))
    async def test_a_session_returns_only_changed_partitions(
        self, filled: HandlerBench, version: int
    ) -> None:
        session_id = await self.open(filled, p(0, 50), p(1, 20), p(2), version=version)
        assert session_id > 0
        session = {"session_id": session_id, "version": version}
        answer = await fetch(filled, session_epoch=1, **session)
        assert (answer.error_code, answer.session_id, answer.responses) == (NONE, session_id, ())
        filled.fill("orders", 1)
        for epoch in (2, 3):
            answer = await fetch(filled, session_epoch=epoch, **session)
            assert [
                (partition.partition_index, partition.high_watermark) for partition in found(answer)
            ] == [(1, 21)]
        answer = await fetch(filled, p(1, 21), session_epoch=4, **session)
        assert answer.responses == ()

    async def test_a_session_waits_for_its_partitions(self, filled: HandlerBench) -> None:
        session_id = await self.open(filled, p(0, 50), p(1, 20))
        exchange, task = begin(filled, session_id=session_id, session_epoch=1)
        await turns(5)
        assert exchange.packed is None
        filled.fill("orders", 0)
        await asyncio.wait_for(task, 60)
        assert [partition.partition_index for partition in found(exchange.outcome)] == [0]
        answer = await fetch(
            filled, p(0, 51), session_id=session_id, session_epoch=2, max_wait_ms=2
        )
        assert answer.responses == ()

    @pytest.mark.parametrize("version", [12, 13])
    async def test_partitions_are_forgotten(self, filled: HandlerBench, version: int) -> None:
        session_id = await self.open(filled, p(0, 50), p(1), version=version)
        key: Any = (
            {"topic": "orders"} if version < 13 else {"topic_id": filled.topics.get("orders").id}
        )  # type: ignore[union-attr]
        gone = [key | {"partitions": [1]}]
        session = {"session_id": session_id, "version": version}
        answer = await fetch(filled, session_epoch=1, forgotten_topics_data=gone, **session)
        assert answer.responses == ()

    @pytest.mark.parametrize("version", [7, 12, 18])
    async def test_wrong_session_ids_and_epochs_are_refused(
        self, filled: HandlerBench, version: int
    ) -> None:
        session_id = await self.open(filled, p(0, 50), version=version)
        for session, epoch, code in (
            (session_id + 1, 1, ErrorCode.fetch_session_id_not_found),
            (0, 1, ErrorCode.fetch_session_id_not_found),
            (session_id, 5, ErrorCode.invalid_fetch_session_epoch),
        ):
            answer = await fetch(
                filled,
                version=version,
                session_id=session,
                session_epoch=epoch,
                max_wait_ms=WAIT_MS,
            )
            assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, ())

    async def test_names_and_ids_do_not_mix(self, filled: HandlerBench) -> None:
        session_id = await self.open(filled, p(0, 50), version=13)
        answer = await fetch(filled, version=12, session_id=session_id, session_epoch=1)
        assert answer.error_code is ErrorCode.fetch_session_topic_id_error
        answer = await fetch(filled, version=13, session_id=session_id, session_epoch=1)
        assert answer.error_code is NONE

    async def test_a_session_is_ended_by_the_final_epoch(self, filled: HandlerBench) -> None:
        session_id = await self.open(filled, p(0, 50))
        answer = await fetch(filled, p(0, 50), session_id=session_id, session_epoch=-1)
        assert (answer.error_code, answer.session_id) == (NONE, 0)
        answer = await fetch(filled, session_id=session_id, session_epoch=1)
        assert answer.error_code is ErrorCode.fetch_session_id_not_found

    async def test_no_session_is_opened_without_slots(self) -> None:
        bench = HandlerBench(max_incremental_fetch_session_cache_slots=0)
        bench.controller.topics.create("orders", 1)
        assert await self.open(bench, p(0)) == 0

    async def test_a_busy_partition_does_not_starve_the_others(self, filled: HandlerBench) -> None:
        limit = {"max_bytes": 2 * batch_size(filled)}
        session_id = await self.open(filled, p(0), p(1), **limit)
        turns = []
        for epoch in range(1, 5):
            answer = await fetch(filled, session_id=session_id, session_epoch=epoch, **limit)
            turns += [partition.partition_index for partition in found(answer) if partition.records]
        assert turns == [1, 0, 1, 0]

    async def test_a_deleted_topic_is_told_until_it_is_forgotten(
        self, filled: HandlerBench
    ) -> None:
        session_id = await self.open(filled, p(0, 50), version=13)
        delete_topic(filled.controller, "orders")
        for epoch in (1, 2):
            answer = await fetch(filled, version=13, session_id=session_id, session_epoch=epoch)
            assert [partition.error_code for partition in found(answer)] == [
                ErrorCode.unknown_topic_id
            ]


# What comes in the turn of the loop in which a fetch begins to wait


@pytest.mark.parametrize("names_it", [True, False])
async def test_an_append_between_reading_and_waiting_is_told_at_once(
    bench: HandlerBench, topic: str, names_it: bool
) -> None:
    first = await fetch(bench, p(0), session_epoch=0, session_id=0)
    named = (p(0),) if names_it else ()
    exchange, task = begin(bench, *named, session_id=first.session_id, session_epoch=1)
    bench.fill(topic, 0)
    await asyncio.wait_for(task, 60)
    assert sizes(exchange.outcome) == [1]


async def test_nor_is_it_kept_from_a_session(bench: HandlerBench, topic: str) -> None:
    """Whose partitions are read again only when something happens in them."""
    bench.fill(topic, 0)
    exchange, task = begin(bench, p(0, 1), session_id=0, session_epoch=0, max_wait_ms=10)
    bench.fill(topic, 0)
    await task
    later = await fetch(bench, session_id=exchange.outcome.session_id, session_epoch=1)
    assert 1 in sizes(exchange.outcome) + sizes(later)


class TestTurns:
    @pytest.mark.parametrize("batch_bytes", [100, 1 << 20])
    async def test_a_fetch_of_the_largest_size_takes_a_bounded_turn(
        self, bench: HandlerBench, topic: str, batch_bytes: int
    ) -> None:
        """One turn reads 16 MiB, and does not step over each batch to see whether it is all."""
        log = bench.topics.log(topic, 0)
        assert log is not None
        batch = build([Record(None, bytes(batch_bytes - 80), (), 1_000)])
        while log.size < 20 << 20:
            log.append(batch, bench.clock.now())
        fields = {"max_bytes": 55 << 20, "min_bytes": 2**31 - 1, "max_wait_ms": 60_000}
        partition = p(0, partition_max_bytes=55 << 20)
        request_ = request(1, 12, **fields_for(bench, 12, (partition,), topic, **fields))
        decoded = decode_request(1, 12, encode(request_))
        exchange = Unread(1, 12)

        async def handle() -> None:
            assert fetch_handler.handle(bench.services, exchange, decoded) is None

        worst, _ = await longest_turn_ms(handle())
        print(f"{worst:.0f} ms")
        size = sum(map(len, exchange.outcome))
        assert 15 << 20 < size < 17 << 20
        assert worst < BOUND_MS


MANY = 1_500
"""More partitions than are read in one turn."""


@pytest.fixture
def wide(bench: HandlerBench) -> HandlerBench:
    bench.controller.topics.create("orders", MANY)
    return bench


async def test_very_many_partitions_have_one_response(wide: HandlerBench) -> None:
    wide.fill("orders", 3, records=10)
    wide.fill("orders", MANY - 1, records=10)
    answer = await fetch(wide, *(p(n) for n in range(MANY)))
    assert [partition.partition_index for partition in found(answer)] == list(range(MANY))
    filled = [index for index, batches in enumerate(sizes(answer)) if batches]
    assert filled == [3, MANY - 1]


async def test_only_the_first_batch_of_many_partitions_exceeds_the_limit(
    wide: HandlerBench,
) -> None:
    for partition in (3, MANY - 1):
        wide.fill("orders", partition, size=1_000)
    answer = await fetch(wide, *(p(n) for n in range(MANY)), max_bytes=10)
    assert [index for index, batches in enumerate(sizes(answer)) if batches] == [3]


async def test_a_fetch_of_very_many_partitions_waits_for_an_append(wide: HandlerBench) -> None:
    exchange, task = begin(wide, *(p(n) for n in range(MANY)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not exchange.answered.is_set()
    wide.fill("orders", 7, records=10)
    assert task is not None
    await asyncio.wait_for(task, 60)
    assert [index for index, batches in enumerate(sizes(exchange.outcome)) if batches] == [7]


async def test_an_append_between_two_slices_of_a_pass_is_not_missed(wide: HandlerBench) -> None:
    exchange, task = begin(wide, *(p(n) for n in range(MANY)))
    for turn in range(3):
        await asyncio.sleep(0)
        wide.fill("orders", turn)
    assert task is not None
    await asyncio.wait_for(task, 60)
    assert any(sizes(exchange.outcome))


async def test_a_session_of_very_many_partitions(wide: HandlerBench) -> None:
    first = await fetch(wide, *(p(n) for n in range(MANY)), session_epoch=0)
    assert first.session_id
    session = {"session_id": first.session_id, "max_wait_ms": WAIT_MS}
    wide.fill("orders", 9)
    second = await fetch(wide, **session, session_epoch=1)
    assert [partition.partition_index for partition in found(second)] == [9]
    exchange, task = begin(wide, p(9, 1), **session, session_epoch=2)
    assert task is not None
    await asyncio.sleep(0)
    wide.fill("orders", 11)
    await asyncio.wait_for(task, 60)
    assert [partition.partition_index for partition in found(exchange.outcome)] == [11]


class TestReadersOfCommittedRecords:
    """Transactions of the producers 1 and 2 in partition 0, behind 50 plain records."""

    @pytest.fixture
    def log(self, filled: HandlerBench) -> Log:
        log = filled.topics.log("orders", 0)
        assert log is not None
        return log

    @staticmethod
    def write(log: Log, producer_id: int, size: int = 100) -> None:
        records = [Record(None, bytes(size), (), 5)]
        batch = build(records, producer_id=producer_id, producer_epoch=0, attributes=TRANSACTIONAL)
        guard = log.begin_verification(producer_id, 0, -1, Timestamp(5), tv2=False)
        log.append(batch, Timestamp(5), verified=guard)

    @staticmethod
    def end(log: Log, producer_id: int, *, commit: bool) -> None:
        log.append_marker(
            producer_id,
            0,
            commit=commit,
            coordinator_epoch=0,
            transaction_version=1,
            timestamp=6,
        )

    @staticmethod
    async def read(bench: HandlerBench, offset: int, level: int, **fields: Any) -> Any:
        return found(await fetch(bench, p(0, offset), isolation_level=level, **fields))[0]

    @pytest.mark.parametrize("version", ALL)
    async def test_readers_by_isolation_level_get_their_records_and_aborted_transactions(
        self, filled: HandlerBench, log: Log, version: int
    ) -> None:
        def told(each: Any) -> tuple[Any, ...]:
            aborted = each.aborted_transactions
            return (
                each.high_watermark,
                each.last_stable_offset,
                len(list(iterate(each.records))),
                aborted and [(one.producer_id, one.first_offset) for one in aborted],
            )

        self.write(log, 1)
        self.write(log, 2)
        assert told(await self.read(filled, 40, 0, version=version)) == (52, 50, 3, None)
        assert told(await self.read(filled, 40, 1, version=version)) == (52, 50, 1, ())
        assert told(await self.read(filled, 51, 1, version=version)) == (52, 50, 0, ())
        self.end(log, 2, commit=False)
        assert told(await self.read(filled, 40, 1, version=version)) == (53, 50, 1, ())
        self.end(log, 1, commit=True)
        assert told(await self.read(filled, 40, 1, version=version)) == (54, 54, 5, [(2, 51)])
        assert told(await self.read(filled, 40, 0, version=version)) == (54, 54, 5, None)
        assert told(await self.read(filled, 53, 1, version=version)) == (54, 54, 1, ())

    async def test_a_committed_reader_waits_until_the_transaction_ends(
        self, filled: HandlerBench, log: Log
    ) -> None:
        self.write(log, 1, size=5_000)
        committed = {"isolation_level": 1, "min_bytes": 5_000}
        exchange, task = begin(filled, p(0, 50), **committed)
        for size in (10_000, 20_000):
            self.write(log, 2, size=size)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not exchange.answered.is_set()
        self.end(log, 2, commit=True)
        await asyncio.sleep(0)
        assert not exchange.answered.is_set()
        self.end(log, 1, commit=True)
        await task
        assert sizes(exchange.outcome) == [5]

    async def test_a_committed_reader_is_not_woken_by_unstable_records(
        self, filled: HandlerBench, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(log, 1)
        passes = []
        read_all = fetch_handler.read_all
        monkeypatch.setattr(
            fetch_handler, "read_all", lambda *args: passes.append(1) or read_all(*args)
        )
        exchange, task = begin(filled, p(0, 50), isolation_level=1)
        await asyncio.sleep(0)
        before = len(passes)
        for _ in range(10):
            self.write(log, 2)
            await asyncio.sleep(0)
        assert len(passes) == before
        self.end(log, 1, commit=False)
        await task
        assert found(exchange.outcome)[0].last_stable_offset == 51

    async def test_plain_records_make_up_for_what_is_missing(
        self, filled: HandlerBench, log: Log
    ) -> None:
        exchange, task = begin(filled, p(0, 50), isolation_level=1, min_bytes=2_000)
        for _ in range(2):
            filled.fill("orders", 0, records=10, size=100)
            await asyncio.sleep(0)
        await task
        assert sizes(exchange.outcome) == [2]
