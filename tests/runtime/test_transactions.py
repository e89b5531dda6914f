"""The transaction coordinator on its logs: order of record, response and markers; crashes."""

import asyncio
from contextlib import asynccontextmanager
from itertools import count

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batches import head
from kohort.runtime.transaction_log import append_records
from kohort.runtime.transactions import TransactionCoordinator
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionRecord, TransactionState, decode
from kohort.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    TransactionalProducer,
)
from kohort.types import TopicPartition
from runtime.fake_log import FakeLog
from runtime.virtual_time import LoopClock, virtual_time
from waiting import turns

ORDERS = {"orders": frozenset({0, 1})}
RELOAD_AFTER_S = 5.0
DAY_MS = 86_400_000


class FakePartitions:
    """Partitions that markers are written to."""

    def __init__(self, happened):
        self.happened = happened
        self.failures = {}
        """Partition → error, as often as it is in the list."""
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, partition, marker):
        await self.gate.wait()
        if failures := self.failures.get(partition):
            raise failures.pop()
        self.happened.append((str(partition), marker))


class CountedPartitions(FakePartitions):
    def __init__(self, happened):
        super().__init__(happened)
        self.in_turn = [0]
        """Markers in each turn of the event loop."""

    async def write(self, partition, marker):
        if not self.in_turn[-1]:
            asyncio.get_running_loop().call_soon(self.in_turn.append, 0)
        self.in_turn[-1] += 1


class Coordinator:
    """`happened` has appended states, responses and markers, in order."""

    def __init__(self, logs, partitions, **options):
        self.logs = logs
        self.partitions = partitions
        self.happened = partitions.happened
        self.clock = LoopClock()
        self.ids = count(100)
        self.coordinator = TransactionCoordinator(
            logs,
            TransactionCoordinatorConfig(),
            self.clock,
            new_producer_id=self.ids.__next__,
            marker_writer=partitions,
            reload_after_s=RELOAD_AFTER_S,
            **options,
        )

    async def ask(self, request):
        response = await self.coordinator.ask(request)
        self.happened.append(response)
        return response

    async def init(self, name="t"):
        request = InitProducerId(on_response=None, transactional_id=name, timeout_ms=60_000)
        response = await self.ask(request)
        return response[1:] if not response.error else response.error

    async def add(self, producer, name="t", partitions=ORDERS):
        return (
            await self.ask(
                AddPartitions(
                    on_response=None,
                    transactional_id=name,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    partitions=partitions,
                    client_version=2,
                )
            )
        ).error

    async def end(self, producer, name="t", bumps_epoch=True):
        return await self.ask(
            EndTransaction(
                on_response=None,
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                commit=True,
                bumps_epoch=bumps_epoch,
            )
        )

    async def state(self, name="t"):
        response = await self.coordinator.ask(
            DescribeTransaction(on_response=None, transactional_id=name)
        )
        return response.metadata.state if response.metadata else response.error


class LoggedLog(FakeLog):
    """A log that tells when it was appended to."""

    def __init__(self, happened):
        super().__init__()
        self.topic_partition = TopicPartition("__transaction_state", 0)
        self.happened = happened

    def append(self, batch, now):
        appended = super().append(batch, now)
        self.happened += [
            record.value.state if record.value else None
            for record in (decode(*each) for each in self.records()[-1])
        ]
        return appended


@asynccontextmanager
async def serving(log=None, partitions=None, **options):
    happened = [] if log is None else log.happened
    served = Coordinator(
        [log or LoggedLog(happened)], partitions or FakePartitions(happened), **options
    )
    served.coordinator.start()
    await served.coordinator.loaded()
    yield served
    await served.coordinator.close()


def marked(happened):
    """The partitions that got a marker."""
    return [each[0] for each in happened if isinstance(each, tuple) and isinstance(each[0], str)]


@virtual_time
async def test_record_response_markers_and_completion_come_in_this_order():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        served.happened.clear()
        await served.end(producer)
        await turns(20)
        marker = (100, 1, True, 2, 0)
        assert served.happened == [
            TransactionState.PREPARE_COMMIT,
            (ErrorCode.none, 100, 1),
            ("orders-0", marker),
            ("orders-1", marker),
            TransactionState.COMPLETE_COMMIT,
        ]


@virtual_time
async def test_the_next_transaction_waits_for_the_markers():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        served.partitions.gate.clear()
        response = await served.end(producer)
        assert await served.add(response[1:]) is ErrorCode.concurrent_transactions
        served.partitions.gate.set()
        await turns(20)
        assert await served.add(response[1:]) is ErrorCode.none


@virtual_time
async def test_partitions_are_added_once_the_markers_are_written():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        served.partitions.gate.clear()
        response = await served.end(producer)
        add = served.coordinator.add_partitions_after_markers(
            TransactionalProducer("t", *response[1:]), ORDERS, 0
        )
        adding = asyncio.ensure_future(add)
        await turns(20)
        assert not adding.done()
        served.partitions.gate.set()
        assert await adding is ErrorCode.none


@virtual_time
async def test_a_write_that_waits_for_the_markers_goes_on_as_soon_as_they_are_written():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        loop = asyncio.get_running_loop()
        before = loop.time()
        await served.coordinator.markers_written("t", 0.02)
        assert loop.time() - before == pytest.approx(0.02)
        served.partitions.gate.clear()
        await served.end(producer)
        before = loop.time()
        await served.coordinator.markers_written("t", 0.02)
        assert loop.time() - before == pytest.approx(0.02)
        loop.call_later(0.001, served.partitions.gate.set)
        await served.coordinator.markers_written("t", 0.02)
        assert loop.time() - before == pytest.approx(0.021)


@virtual_time
async def test_markers_that_take_long_are_not_waited_for():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        served.partitions.gate.clear()
        response = await served.end(producer)
        loop = asyncio.get_running_loop()
        before = loop.time()
        add = served.coordinator.add_partitions_after_markers(
            TransactionalProducer("t", *response[1:]), ORDERS, 0
        )
        assert await add is ErrorCode.concurrent_transactions
        assert loop.time() - before == pytest.approx(0.1)
        served.partitions.gate.set()
        await turns(20)


@virtual_time
async def test_a_marker_that_fails_for_now_is_written_later():
    async with serving() as served:
        failures = [KafkaError(ErrorCode.kafka_storage_error), OSError("disk")]
        served.partitions.failures[TopicPartition("orders", 1)] = failures
        producer = await served.init()
        await served.add(producer)
        await served.end(producer)
        await turns(20)
        assert await served.state() is TransactionState.PREPARE_COMMIT
        await asyncio.sleep(1)
        assert await served.state() is TransactionState.COMPLETE_COMMIT
        assert marked(served.happened) == ["orders-0", "orders-1"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.transaction_coordinator_fenced,
    ],
)
def test_a_partition_that_needs_no_marker_holds_up_nothing(code):
    @virtual_time
    async def run():
        async with serving() as served:
            served.partitions.failures[TopicPartition("orders", 0)] = [KafkaError(code)]
            producer = await served.init()
            await served.add(producer)
            await served.end(producer)
            await turns(20)
            assert await served.state() is TransactionState.COMPLETE_COMMIT

    run()


@virtual_time
async def test_a_transaction_times_out():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        await asyncio.sleep(59)
        assert await served.state() is TransactionState.ONGOING
        await asyncio.sleep(2)
        assert await served.state() is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("ahead_ms", [-DAY_MS, DAY_MS])
@virtual_time
async def test_a_jump_of_the_wall_clock_moves_no_timeout(ahead_ms):
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        served.clock.ahead_ms = ahead_ms
        await asyncio.sleep(59)
        assert await served.state() is TransactionState.ONGOING
        await asyncio.sleep(2)
        assert await served.state() is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize(("ahead_ms", "after_s"), [(-DAY_MS, 60), (DAY_MS, 0)])
@virtual_time
async def test_after_a_start_a_transaction_is_as_old_as_the_wall_clock_says(ahead_ms, after_s):
    async with serving() as served:
        await served.add(await served.init())
        log = served.logs[0]
    successor = Coordinator([log], FakePartitions([]))
    successor.clock.ahead_ms = ahead_ms
    successor.coordinator.start()
    if after_s:
        await asyncio.sleep(after_s - 1)
        assert await successor.state() is TransactionState.ONGOING
    await asyncio.sleep(2)
    assert await successor.state() is TransactionState.COMPLETE_ABORT
    await successor.coordinator.close()


@virtual_time
async def test_ids_expire_by_the_wall_clock():
    async with serving() as served:
        await served.init()
        served.clock.ahead_ms = -DAY_MS
        await asyncio.sleep(7.5 * 86_400)
        assert await served.state() is TransactionState.EMPTY
        served.clock.ahead_ms = 0
        await asyncio.sleep(2 * 3_600)
        assert await served.state() is ErrorCode.transactional_id_not_found


@virtual_time
async def test_an_idle_id_expires():
    async with serving() as served:
        await served.init()
        await asyncio.sleep(8 * 86_400)
        assert await served.state() is ErrorCode.transactional_id_not_found
        assert served.happened[-1] is None


@virtual_time
async def test_very_many_idle_ids_expire_in_several_appends_while_the_disk_is_slow():
    async with serving() as served:
        await served.init()
        (metadata,) = (ids["t"] for ids in served.coordinator.shards())
    log = LoggedLog([])
    append_records(log, [TransactionRecord(f"t{n}", metadata) for n in range(1_001)], 0)
    before = len(log.batches)
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        await asyncio.sleep(8 * 86_400)
        assert len(log.records()[before:]) == 1
        log.undurable.set_result(None)
        await asyncio.sleep(1)
        sizes = [len(batch) for batch in log.records()[before:]]
        assert sum(sizes) == 1_001
        assert max(sizes) <= 200


@virtual_time
async def test_a_refused_append_is_told_and_the_shard_loaded_again():
    async with serving() as served:
        producer = await served.init()
        served.logs[0].failure = KafkaError(ErrorCode.kafka_storage_error)
        assert await served.add(producer) is ErrorCode.not_coordinator
        assert await served.add(producer) is ErrorCode.not_coordinator
        served.logs[0].failure = None
        await asyncio.sleep(RELOAD_AFTER_S + 1)
        assert await served.state() is TransactionState.EMPTY
        assert await served.add(producer) is ErrorCode.none


@virtual_time
async def test_no_marker_is_written_before_the_end_is_durable():
    async with serving(waits_for_disk=True) as served:
        producer = await served.init()
        await served.add(producer)
        disk = served.logs[0].undurable = asyncio.get_running_loop().create_future()
        ending = asyncio.ensure_future(served.end(producer))
        await turns(20)
        assert served.happened[-1] is TransactionState.PREPARE_COMMIT
        served.logs[0].undurable = None
        disk.set_result(None)
        await ending
        await turns(20)
        assert served.happened[-1] is TransactionState.COMPLETE_COMMIT


@virtual_time
async def test_markers_are_written_once_also_if_the_shard_is_loaded_again_meanwhile():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer, partitions={"orders": frozenset(range(250))})
        served.partitions.gate.clear()
        await served.end(producer)
        await turns(20)
        served.coordinator.log_reopened(served.logs[0])
        served.partitions.gate.set()
        await asyncio.sleep(RELOAD_AFTER_S + 1)
        assert marked(served.happened) == [f"orders-{each}" for each in range(250)]
        assert await served.state() is TransactionState.COMPLETE_COMMIT


@virtual_time
async def test_markers_are_written_once_while_the_log_refuses_their_completion():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        await served.end(producer, bumps_epoch=False)
        served.logs[0].failure = OSError(28, "No space left on device")
        await asyncio.sleep(600)
        assert marked(served.happened) == ["orders-0", "orders-1"]
        assert served.coordinator.statistics()["ending"] == 1
        served.logs[0].failure = None
        await asyncio.sleep(20)
        assert await served.state() is TransactionState.COMPLETE_COMMIT
        assert served.coordinator.statistics()["ending"] == 0
        await served.add(producer)
        await served.end(producer, bumps_epoch=False)
        await turns(20)
        assert marked(served.happened) == ["orders-0", "orders-1"] * 2


@virtual_time
async def test_a_log_that_refuses_appends_is_loaded_less_and_less_often(caplog):
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        await served.end(producer)
        log = served.logs[0]
        log.failure = OSError(28, "No space left on device")
        loaded = log.reads
        await asyncio.sleep(600)
        assert log.reads - loaded <= 62
        assert len(caplog.records) == 1


@virtual_time
async def test_a_log_without_the_end_of_a_transaction_gets_no_more_markers():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer, partitions={"orders": frozenset(range(250))})
        before = LoggedLog(served.happened)
        for batch in served.logs[0].batches:
            before.append(batch, 0)
        served.partitions.gate.clear()
        await served.end(producer)
        await turns(20)
        served.coordinator.log_reopened(before)
        await asyncio.sleep(RELOAD_AFTER_S + 1)
        served.partitions.gate.set()
        await turns(20)
        assert marked(served.happened) == []
        assert await served.state() is TransactionState.ONGOING


@virtual_time
async def test_an_end_whose_connection_is_lost_goes_on():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        ending = asyncio.ensure_future(served.end(producer))
        await asyncio.sleep(0)
        ending.cancel()
        await turns(20)
        assert ending.cancelled()
        assert await served.state() is TransactionState.COMPLETE_COMMIT


@virtual_time
async def test_transactions_that_time_out_together_end_in_many_turns():
    partitions = CountedPartitions([])
    async with serving(partitions=partitions) as served:
        for number in range(100):
            producer = await served.init(f"t{number}")
            await served.add(producer, f"t{number}", {"orders": frozenset(range(30))})
        await asyncio.sleep(61)
        assert sum(partitions.in_turn) == 100 * 30
        assert max(partitions.in_turn) <= 200


@virtual_time
async def test_an_end_while_a_loaded_shard_resumes_gets_its_markers_once():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        (metadata,) = (ids["t"] for ids in served.coordinator.shards())
    log = LoggedLog([])
    append_records(log, [TransactionRecord(f"t{n}", metadata) for n in range(1_001)], 0)
    log.happened.clear()
    successor = Coordinator([log], FakePartitions(log.happened))
    successor.coordinator.start()
    for _ in range(100):
        if successor.coordinator.is_loaded:
            break
        await asyncio.sleep(0)
    assert await successor.end(producer, "t1000", bumps_epoch=False) == (0, *producer)
    await turns(20)
    assert marked(log.happened) == ["orders-0", "orders-1"]
    await successor.coordinator.close()


STAGES = [
    (1, TransactionState.EMPTY, []),
    (2, TransactionState.ONGOING, []),
    (3, TransactionState.COMPLETE_COMMIT, ["orders-0", "orders-1"]),
    (4, TransactionState.COMPLETE_COMMIT, []),
]


@pytest.mark.parametrize(("kept", "state", "markers"), STAGES)
def test_a_server_that_was_killed_after_any_record_goes_on(kept, state, markers):
    @virtual_time
    async def run():
        async with serving() as served:
            producer = await served.init()
            await served.add(producer)
            await served.end(producer)
            await turns(20)
            batches = served.logs[0].batches
        log = LoggedLog([])
        for batch in batches[:kept]:
            log.append(batch, 0)
        log.happened.clear()
        async with serving(log) as served:
            await turns(20)
            assert await served.state() is state
            assert marked(log.happened) == markers

    run()


@virtual_time
async def test_a_log_that_is_not_of_the_schema_is_refused_until_it_is_replaced():
    log = LoggedLog([])
    content = b"\x10\x00\x00\x00\x04\x00\x00\x00\x00"
    log.batches.append(head(0, 0, content, 1, 0) + content)
    log.end_offset = 1
    async with serving(log) as served:
        assert await served.init() is ErrorCode.not_coordinator
        served.coordinator.log_reopened(LoggedLog([]))
        await turns(20)
        assert await served.init() == (100, 0)


@virtual_time
async def test_statistics_count_shards_ids_and_open_transactions():
    async with serving() as served:
        producer = await served.init()
        await served.add(producer)
        await served.init("other")
        assert served.coordinator.statistics() == {
            "shards": {"active": 1},
            "transactional_ids": 2,
            "open": 1,
            "ending": 0,
        }
        assert served.coordinator.is_loaded


@virtual_time
async def test_open_transactions_are_counted_once():
    async with serving() as served:
        for name in ("t", "u"):
            await served.add(await served.init(name), name)
        served.coordinator.log_reopened(served.logs[0])
        await asyncio.sleep(RELOAD_AFTER_S + 1)
        assert served.coordinator.statistics()["open"] == 2
        await asyncio.sleep(60)
        assert served.coordinator.statistics()["open"] == 0


@virtual_time
async def test_requests_that_wait_for_the_log_get_a_response_when_the_server_ends():
    async with serving() as served:
        waiting = asyncio.ensure_future(served.init())
        await asyncio.sleep(0)
    assert await waiting == (100, 0)
