"""Incremental fetch sessions, without a broker: what is asked, what is told, and when a session ends."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kohort.errors import ErrorCode, KafkaError
from kohort.server.fetch_sessions import EVICTION_MS, FetchContext, FetchSessions
from kohort.server.fetching import Fetched, Wanted
from kohort.types import Instant

T0 = Instant(1_000_000)


def wanted(*partitions: int, offset: int = 0, topic: Any = "t") -> list[Wanted]:
    return [Wanted(topic, partition, offset, 1_000) for partition in partitions]


def begin(sessions: FetchSessions, session_id: int, epoch: int, asked: Any = (), **more: Any) -> FetchContext:
    arguments: dict[str, Any] = {"forgotten": (), "by_id": False, "now": T0} | more
    return sessions.begin(session_id, epoch, asked, arguments.pop("forgotten"), **arguments)


def idle(context: FetchContext, end: int = 0) -> list[Fetched]:
    """Every partition is there and has nothing."""
    return [Fetched(each, high_watermark=end, log_start_offset=0) for each in context.wanted]


def opened(sessions: FetchSessions, *partitions: int, **more: Any) -> int:
    context = begin(sessions, 0, 0, wanted(*partitions), **more)
    session_id, told = context.finish(idle(context))
    assert len(told) == len(partitions)
    return session_id


def refused(sessions: FetchSessions, session_id: int, epoch: int, **more: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        begin(sessions, session_id, epoch, **more)
    return caught.value.code


def test_a_full_fetch_makes_no_session() -> None:
    sessions = FetchSessions(10)
    context = begin(sessions, 0, -1, wanted(0, 1))
    assert context.finish(idle(context)) == (0, idle(context))
    assert len(sessions) == 0


def test_of_a_partition_that_is_named_twice_the_last_counts() -> None:
    context = begin(FetchSessions(10), 0, -1, [*wanted(0, offset=3), *wanted(0, offset=10)])
    assert [each.offset for each in context.wanted] == [10]


def test_only_news_are_told() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    assert session_id > 0
    context = begin(sessions, session_id, 1)
    assert [each.partition for each in context.wanted] == [0, 1, 2]
    assert context.finish(idle(context)) == (session_id, [])
    context = begin(sessions, session_id, 2)
    found = idle(context)
    found[1] = found[1]._replace(high_watermark=1, records=b"x")
    found[2] = found[2]._replace(log_start_offset=5)
    assert context.finish(found) == (session_id, found[1:])
    context = begin(sessions, session_id, 3)
    assert context.finish([f._replace(high_watermark=9) for f in idle(context)])[1] != []


def test_records_are_told_until_the_offset_moves() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    for epoch in (1, 2):
        context = begin(sessions, session_id, epoch)
        found = [Fetched(context.wanted[0], high_watermark=1, log_start_offset=0, records=b"x")]
        assert context.finish(found)[1] == found
    context = begin(sessions, session_id, 3, wanted(0, offset=1))
    assert context.wanted[0].offset == 1
    assert context.finish(idle(context, end=1))[1] == []


def test_an_error_is_told_until_it_is_over_and_then_the_offsets() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0)
    for epoch in (1, 2):
        context = begin(sessions, session_id, epoch)
        found = [Fetched(context.wanted[0], ErrorCode.offset_out_of_range)]
        assert context.finish(found)[1] == found
    context = begin(sessions, session_id, 3)
    assert len(context.finish(idle(context))[1]) == 1


def test_partitions_are_added_and_forgotten() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1)
    context = begin(sessions, session_id, 1, wanted(7), forgotten=[("t", 0), ("other", 1)])
    assert [each.partition for each in context.wanted] == [1, 7]
    assert [each.wanted.partition for each in context.finish(idle(context))[1]] == [7]


def test_who_gave_records_is_read_last_next_time() -> None:
    sessions = FetchSessions(10)
    session_id = opened(sessions, 0, 1, 2)
    context = begin(sessions, session_id, 1)
    found = idle(context)
    context.finish([found[0]._replace(records=b"x"), *found[1:]])
    assert [each.partition for each in begin(sessions, session_id, 2).wanted] == [1, 2, 0]


def test_what_is_wrong_with_a_session() -> None:
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
    replaced, _ = context.finish(idle(context))
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
    sessions = FetchSessions(1)
    session_id = opened(sessions, 0)
    sessions._sessions[session_id].epoch = 2**31 - 1
    begin(sessions, session_id, 2**31 - 1)
    begin(sessions, session_id, 1)


class SessionMachine(RuleBasedStateMachine):
    """A client that keeps to the protocol knows, after every answer, what a full fetch would have told it."""

    @initialize(partitions=st.sets(st.integers(0, 4)))
    def start(self, partitions: set[int]) -> None:
        self.sessions = FetchSessions(1)
        self.logs = dict.fromkeys(range(5), (0, 0))  # (start, end)
        self.known: dict[int, tuple[int, int]] = {}
        context = begin(self.sessions, 0, 0, wanted(*sorted(partitions)))
        self.session_id, told = context.finish(self.read(context))
        self.epoch = 1
        self.asked = set(partitions)
        self.learn(told)

    def read(self, context: FetchContext) -> list[Fetched]:
        return [
            Fetched(each, high_watermark=self.logs[each.partition][1], log_start_offset=self.logs[each.partition][0])
            for each in context.wanted
        ]

    def learn(self, told: list[Fetched]) -> None:
        for each in told:
            self.known[each.wanted.partition] = (each.log_start_offset, each.high_watermark)

    @rule(partition=st.integers(0, 4), trimmed=st.booleans())
    def change(self, partition: int, trimmed: bool) -> None:
        start, end = self.logs[partition]
        self.logs[partition] = (end, end) if trimmed else (start, end + 1)

    @rule(added=st.sets(st.integers(0, 4)), dropped=st.sets(st.integers(0, 4)))
    def fetch(self, added: set[int], dropped: set[int]) -> None:
        dropped -= added
        context = begin(
            self.sessions, self.session_id, self.epoch, wanted(*sorted(added)), forgotten=[("t", p) for p in dropped]
        )
        self.epoch += 1
        self.asked = (self.asked | added) - dropped
        assert {each.partition for each in context.wanted} == self.asked
        session_id, told = context.finish(self.read(context))
        assert session_id == self.session_id
        self.learn(told)
        for partition in self.asked:
            assert self.known[partition] == self.logs[partition]

    @invariant()
    def only_one_slot(self) -> None:
        if hasattr(self, "sessions"):
            assert len(self.sessions) == 1


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
