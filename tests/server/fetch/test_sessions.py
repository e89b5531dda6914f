"""Incremental fetch sessions, without a broker: what is read, what is told, and when a session
ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effort import examples
from kohort.errors import ErrorCode, KafkaError
from kohort.server.fetch import sessions as sessions_module
from kohort.server.fetch.context import MAX_EPOCH, FetchContext, FetchSession
from kohort.server.fetch.partitions import Partitions
from kohort.server.fetch.reading import FetchPartitionData, PartitionRequest
from kohort.server.fetch.sessions import EVICTION_MS, FetchSessions
from kohort.types import Instant

T0 = Instant(1_000_000)


class FakeLog:
    """Offsets, and who is called when they change."""

    def __init__(self) -> None:
        self.start_offset = self.end_offset = self.size = 0
        self.callbacks: list[Callable[[], None]] = []

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def append(self, size: int = 1) -> None:
        self.end_offset += 1
        self.size += size
        self.changed()

    def trim(self) -> None:
        self.start_offset = self.end_offset
        self.changed()

    def changed(self) -> None:
        for callback in tuple(self.callbacks):
            callback()


def wanted(*partitions: int, offset: int = 0, topic: Any = "t") -> list[PartitionRequest]:
    return [PartitionRequest(topic, partition, offset, 1_000) for partition in partitions]


def begin(
    sessions: FetchSessions, session_id: int, epoch: int, asked: Any = (), **more: Any
) -> FetchContext:
    arguments: dict[str, Any] = {"forgotten": (), "by_id": False, "now": T0} | more
    return sessions.begin(session_id, epoch, asked, arguments.pop("forgotten"), **arguments)


def due(context: FetchContext) -> list[int]:
    return [each.partition for each in context.due]


def idle(context: FetchContext, end: int = 0) -> list[FetchPartitionData]:
    """Every partition is there and has nothing; no log tells when that changes."""
    return [
        FetchPartitionData(each, high_watermark=end, log_start_offset=0) for each in context.due
    ]


def answer(
    context: FetchContext, found: Sequence[FetchPartitionData]
) -> tuple[int, list[FetchPartitionData]]:
    context.record(found)
    session_id, told = context.finish()
    return session_id, list(told)


def opened(sessions: FetchSessions, *partitions: int, **more: Any) -> int:
    context = begin(sessions, 0, 0, wanted(*partitions), **more)
    session_id, told = answer(context, idle(context))
    assert len(told) == len(partitions)
    return session_id


def refused(sessions: FetchSessions, session_id: int, epoch: int, **more: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        begin(sessions, session_id, epoch, **more)
    return caught.value.code


def test_a_full_fetch_makes_no_session() -> None:
    sessions = FetchSessions(10)
    context = begin(sessions, 0, -1, wanted(0, 1))
    assert answer(context, idle(context)) == (0, idle(context))
    assert len(sessions) == 0


def test_the_last_offset_of_a_partition_named_twice_counts() -> None:
    context = begin(FetchSessions(10), 0, -1, [*wanted(0, offset=3), *wanted(0, offset=10)])
    assert [each.offset for each in context.due] == [10]


def test_only_news_are_told() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    assert session_id > 0
    context = begin(sessions, session_id, 1)
    assert due(context) == [0, 1, 2]
    assert answer(context, idle(context)) == (session_id, [])
    context = begin(sessions, session_id, 2)
    found = idle(context)
    found[1] = found[1]._replace(high_watermark=1, records=b"x")
    found[2] = found[2]._replace(log_start_offset=5)
    assert answer(context, found) == (session_id, found[1:])
    context = begin(sessions, session_id, 3)
    assert answer(context, [f._replace(high_watermark=9) for f in idle(context)])[1] != []


def test_records_are_told_until_the_offset_moves() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    for epoch in (1, 2):
        context = begin(sessions, session_id, epoch)
        found = [
            FetchPartitionData(context.due[0], high_watermark=1, log_start_offset=0, records=b"x")
        ]
        assert answer(context, found)[1] == found
    context = begin(sessions, session_id, 3, wanted(0, offset=1))
    assert context.due[0].offset == 1
    assert answer(context, idle(context, end=1))[1] == []


def test_an_error_is_told_until_it_is_over_and_then_the_offsets() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    for epoch in (1, 2):
        context = begin(sessions, session_id, epoch)
        found = [FetchPartitionData(context.due[0], ErrorCode.offset_out_of_range)]
        assert answer(context, found)[1] == found
    context = begin(sessions, session_id, 3)
    assert len(answer(context, idle(context))[1]) == 1


def test_partitions_are_added_and_forgotten() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1)
    context = begin(sessions, session_id, 1, wanted(7), forgotten=[("t", 0), ("other", 1)])
    assert due(context) == [1, 7]
    assert [each.request.partition for each in answer(context, idle(context))[1]] == [7]


def test_a_partition_that_gave_records_is_read_last_next_time() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    context = begin(sessions, session_id, 1)
    found = idle(context)
    answer(context, [found[0]._replace(records=b"x"), *found[1:]])
    assert due(begin(sessions, session_id, 2)) == [1, 2, 0]


def test_wrong_session_ids_and_epochs_are_refused_and_change_nothing() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    assert refused(sessions, session_id + 1, 1) is ErrorCode.fetch_session_id_not_found
    assert refused(sessions, 0, 1) is ErrorCode.fetch_session_id_not_found
    assert refused(sessions, 0, -2) is ErrorCode.fetch_session_id_not_found
    assert refused(sessions, session_id, 2) is ErrorCode.invalid_fetch_session_epoch
    assert refused(sessions, session_id, 1, by_id=True) is ErrorCode.fetch_session_topic_id_error
    begin(sessions, session_id, 1)  # none of those moved the epoch
    assert refused(sessions, session_id, 1) is ErrorCode.invalid_fetch_session_epoch


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_it_names(epoch: int) -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    context = begin(sessions, session_id, epoch, wanted(0))
    replaced, _ = answer(context, idle(context))
    assert replaced != session_id
    assert refused(sessions, session_id, 1) is ErrorCode.fetch_session_id_not_found
    assert len(sessions) == (1 if epoch == 0 else 0)


def test_without_a_free_slot_there_is_no_session_until_one_was_idle_long_enough() -> None:
    sessions = FetchSessions(2)
    first, second = opened(sessions, 0), opened(sessions, 0)
    assert opened(sessions, 0) == 0
    begin(sessions, first, 1, now=Instant(T0 + EVICTION_MS))
    assert opened(sessions, 0, now=Instant(T0 + EVICTION_MS)) == 0
    assert opened(sessions, 0, now=Instant(T0 + EVICTION_MS + 1)) > 0
    assert refused(sessions, second, 1) is ErrorCode.fetch_session_id_not_found
    begin(sessions, first, 2)


def test_no_slots_at_all() -> None:
    assert opened(FetchSessions(0), 0) == 0


def test_after_the_last_epoch_comes_the_first() -> None:
    session = FetchSession(1, Partitions(), by_id=False, now=T0)
    session.epoch = MAX_EPOCH
    session.update((), ())
    assert session.epoch == 1


def found_in(logs: Sequence[FakeLog], each: PartitionRequest) -> FetchPartitionData:
    """What a read of the partition would give."""
    log: Any = logs[each.partition]
    records = b"x" * (log.end_offset - each.offset)
    return FetchPartitionData(
        each, ErrorCode.none, log.end_offset, log.start_offset, records, log=log
    )


def read(logs: Sequence[FakeLog], context: FetchContext) -> list[FetchPartitionData]:
    return [found_in(logs, each) for each in context.due]


def opened_on(sessions: FetchSessions, logs: Sequence[FakeLog]) -> int:
    context = begin(sessions, 0, 0, wanted(*range(len(logs))))
    return answer(context, read(logs, context))[0]


class TestDue:
    def test_only_what_changed_is_read(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog() for _ in range(4)]
        session_id = opened_on(sessions, logs)
        context = begin(sessions, session_id, 1)
        assert due(context) == []
        assert context.any_caught_up
        logs[2].append()
        logs[0].append()
        assert due(context) == [2, 0], "in the order in which they changed"

    def test_a_log_tells_it_once(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog()]
        opened_on(sessions, logs)
        assert len(logs[0].callbacks) == 1
        logs[0].append()
        assert logs[0].callbacks == []

    def test_a_partition_requested_again_is_read(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog(), FakeLog()]
        context = begin(sessions, opened_on(sessions, logs), 1, wanted(1))
        assert due(context) == [1]
        answer(context, read(logs, context))
        assert due(context) == []
        assert len(logs[1].callbacks) == 1

    def test_a_topic_that_was_made_again_is_watched_in_place_of_the_old_one(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog()]
        context = begin(sessions, opened_on(sessions, logs), 1, wanted(0))
        answer(context, read([new := FakeLog()], context))
        assert (len(logs[0].callbacks), len(new.callbacks)) == (0, 1)

    def test_a_partition_changed_by_a_later_request_is_read_again(self) -> None:
        """A request that waited is overtaken by the next of its session, on another connection."""
        sessions, logs = FetchSessions(1), [FakeLog(), FakeLog()]
        session_id = opened_on(sessions, logs)
        logs[0].append()
        logs[1].append()
        waiting = begin(sessions, session_id, 1, wanted(0, 1, offset=1))
        found = read(logs, waiting)
        begin(sessions, session_id, 2, wanted(0, offset=0), forgotten=[("t", 1)])
        answer(waiting, found)
        assert due(begin(sessions, session_id, 3)) == [0]
        assert logs[1].callbacks == []

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_a_session_that_ends_watches_nothing(self, epoch: int) -> None:
        sessions, logs = FetchSessions(1), [FakeLog(), FakeLog()]
        session_id = opened_on(sessions, logs)
        overtaken = begin(sessions, session_id, 1, wanted(0))
        begin(sessions, session_id, epoch)
        assert not any(log.callbacks for log in logs)
        answer(overtaken, read(logs, overtaken))
        assert not any(log.callbacks for log in logs)

    def test_one_that_gives_way_watches_nothing(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog()]
        opened_on(sessions, logs)
        assert opened(sessions, 0, now=Instant(T0 + EVICTION_MS + 1)) > 0
        assert logs[0].callbacks == []

    def test_a_diverging_partition_is_told_until_it_is_over(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog()]
        session_id = opened_on(sessions, logs)
        for epoch in (1, 2):
            context = begin(sessions, session_id, epoch, wanted(0))
            found = [each._replace(diverging=True) for each in read(logs, context)]
            assert answer(context, found)[1] == found
            assert due(context) == [0]


class TestMore:
    async def wait(
        self, context: FetchContext, logs: Sequence[FakeLog], missing: int = 1
    ) -> "asyncio.Task[None]":
        context.record(read(logs, context))
        task = asyncio.create_task(
            context.wait_for_bytes(missing, asyncio.get_running_loop().time() + 60)
        )
        await asyncio.sleep(0)
        return task

    async def test_the_second_pass_reads_what_changed_and_answers_everything(self) -> None:
        logs = [FakeLog() for _ in range(4)]
        context = begin(FetchSessions(0), 0, -1, wanted(0, 1, 2, 3))
        task = await self.wait(context, logs)
        logs[2].append()
        await task
        assert due(context) == [2]
        _, told = answer(context, read(logs, context))
        assert [(each.request.partition, bytes(each.records)) for each in told] == [
            (0, b""), (1, b""), (2, b"x"), (3, b"")
        ]  # fmt: skip
        context.close()
        assert not any(log.callbacks for log in logs)

    async def test_a_wait_lasts_until_all_missing_bytes_arrived(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog(), FakeLog()]
        context = begin(sessions, opened_on(sessions, logs), 1)
        task = await self.wait(context, logs, missing=10)
        logs[0].append(4)
        logs[1].append(4)
        logs[0].append(1)
        await asyncio.sleep(0)
        assert not task.done()
        logs[1].append(1)
        await task
        assert due(context) == [0, 1]

    async def test_a_log_that_was_trimmed_ends_it(self) -> None:
        logs = [FakeLog()]
        logs[0].append()
        context = begin(FetchSessions(0), 0, -1, wanted(0, offset=1))
        task = await self.wait(context, logs, missing=1_000)
        logs[0].trim()
        await task

    async def test_offsets_that_the_client_was_not_told_yet_stay_due(self) -> None:
        sessions, logs = FetchSessions(1), [FakeLog(), FakeLog()]
        session_id = opened_on(sessions, logs[:1])
        context = begin(sessions, session_id, 1, wanted(1))
        task = await self.wait(context, logs)
        logs[0].append()
        await task
        assert due(context) == [1, 0]
        assert len(answer(context, read(logs, context))[1]) == 2

    async def test_two_that_wait(self) -> None:
        partitions, logs = Partitions(wanted(0)), [FakeLog()]
        partitions.watch(found_in(logs, partitions.due[0]), caught_up=True)
        deadline = asyncio.get_running_loop().time() + 60
        tasks = [
            asyncio.create_task(partitions.wait_for_bytes(missing, deadline)) for missing in (1, 2)
        ]
        await asyncio.sleep(0)
        logs[0].append()
        await tasks[0]
        assert not tasks[1].done()
        logs[0].append()
        logs[0].append()
        await tasks[1]


class SessionMachine(RuleBasedStateMachine):
    """A client that keeps to the protocol knows, after every answer, what a full fetch would have
    told it.
    """

    @initialize(partitions=st.sets(st.integers(0, 4)))
    def start(self, partitions: set[int]) -> None:
        self.sessions = FetchSessions(1)
        self.logs = [FakeLog() for _ in range(5)]
        self.known: dict[int, tuple[int, int]] = {}
        self.offsets = dict.fromkeys(range(5), 0)
        context = begin(self.sessions, 0, 0, wanted(*sorted(partitions)))
        self.session_id, told = answer(context, read(self.logs, context))
        self.epoch = 1
        self.asked = set(partitions)
        self.learn(told)

    def learn(self, told: list[FetchPartitionData]) -> None:
        for each in told:
            self.known[each.request.partition] = (each.log_start_offset, each.high_watermark)

    @rule(partition=st.integers(0, 4), trimmed=st.booleans())
    def change(self, partition: int, trimmed: bool) -> None:
        if trimmed:
            self.logs[partition].trim()
        else:
            self.logs[partition].append()

    @rule(
        added=st.sets(st.integers(0, 4)),
        dropped=st.sets(st.integers(0, 4)),
        meanwhile=st.lists(st.lists(st.integers(0, 4), max_size=2), max_size=3),
    )
    def fetch(self, added: set[int], dropped: set[int], meanwhile: list[list[int]]) -> None:
        dropped -= added
        for partition in added:
            self.offsets[partition] = self.logs[partition].end_offset
        asked = [
            PartitionRequest("t", partition, self.offsets[partition], 1_000)
            for partition in sorted(added)
        ]
        context = begin(
            self.sessions,
            self.session_id,
            self.epoch,
            asked,
            forgotten=[("t", p) for p in sorted(dropped)],
        )
        self.epoch += 1
        self.asked = (self.asked | added) - dropped
        for changing in meanwhile:
            context.record(read(self.logs, context))
            asyncio.run(context.wait_for_bytes(1, 0))  # what it does before it waits, and after
            for partition in changing:
                self.logs[partition].append()
        session_id, told = answer(context, read(self.logs, context))
        assert session_id == self.session_id
        self.learn(told)
        given = {each.request.partition for each in told if each.records}
        for partition in self.asked:
            assert self.known[partition] == (
                self.logs[partition].start_offset,
                self.logs[partition].end_offset,
            )
            assert (self.offsets[partition] < self.logs[partition].end_offset) == (
                partition in given
            )

    @invariant()
    def only_one_slot(self) -> None:
        if hasattr(self, "sessions"):
            assert len(self.sessions) == 1


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=examples(30), stateful_step_count=20)


def test_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up partitions cost memory as others do, and outlive their connection."""
    monkeypatch.setattr(sessions_module, "MAX_PARTITIONS", 10)
    held = FetchSessions(slots=100)

    def begin(session_id: int, epoch: int, first: int, count: int) -> int:
        wanted = [PartitionRequest("t", n, 0, 1) for n in range(first, first + count)]
        context = held.begin(session_id, epoch, wanted, (), by_id=False, now=Instant(0))
        return context.finish()[0]

    first = begin(0, 0, 0, 6)
    assert first
    assert begin(0, 0, 0, 6) == 0, "a full fetch"
    assert begin(first, 1, 6, 4) == first
    with pytest.raises(KafkaError):
        begin(first, 2, 10, 1)
    assert len(held) == 0
    assert begin(0, 0, 0, 10)


class TestEvictionForPartitions:
    """Sessions of clients that vanished give way where the partitions are the limit, too."""

    @pytest.fixture(autouse=True)
    def _bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions_module, "MAX_PARTITIONS", 10)

    def test_a_new_session_takes_the_room_of_those_that_were_idle_longest(self) -> None:
        sessions = FetchSessions(100)
        gone = [opened(sessions, *range(3)) for _ in range(3)]
        later = Instant(T0 + EVICTION_MS)
        begin(sessions, gone[0], 1, now=later)
        assert opened(sessions, *range(6), now=later) == 0
        assert opened(sessions, *range(6), now=Instant(later + 1)) > 0
        assert len(sessions) == 2
        begin(sessions, gone[0], 2, now=later)

    def test_no_session_is_opened_if_too_few_are_idle(self) -> None:
        sessions = FetchSessions(100)
        opened(sessions, *range(3))
        later = Instant(T0 + EVICTION_MS + 1)
        busy = opened(sessions, *range(6), now=later)
        assert opened(sessions, *range(5), now=later) == 0
        begin(sessions, busy, 1, now=later)

    def test_a_session_that_grows_takes_their_room(self) -> None:
        sessions = FetchSessions(100)
        gone, growing = opened(sessions, *range(6)), opened(sessions, *range(4))
        later = Instant(T0 + EVICTION_MS + 1)
        begin(sessions, growing, 1, wanted(*range(4, 8)), now=later)
        assert refused(sessions, gone, 1) is ErrorCode.fetch_session_id_not_found
        assert len(sessions) == 1


def test_a_larger_session_takes_the_slot_of_the_smallest_that_is_old() -> None:
    """Kafka's FetchSessionCacheShard.tryEvict: a session is kept for two minutes at least."""
    sessions = FetchSessions(3)
    ids = {size: opened(sessions, *range(size)) for size in (3, 2, 5)}
    later = Instant(T0 + EVICTION_MS)
    for session_id in ids.values():
        begin(sessions, session_id, 1, now=later)
    assert opened(sessions, *range(4), now=later) == 0
    later = Instant(later + 1)
    assert opened(sessions, *range(2), now=later) == 0
    assert opened(sessions, *range(4), now=later) > 0
    assert refused(sessions, ids[2], 2) is ErrorCode.fetch_session_id_not_found
    begin(sessions, ids[3], 2, now=later)
    begin(sessions, ids[5], 2, now=later)
