"""Which segments go, and when."""

import pytest

from kohort.log.base import LogConfig
from kohort.log.memory import memory_log

from .conftest import DAY, NOW, ORDERS, batch, fill, records_of


@pytest.fixture
def filled(open_log):
    """A log of many segments, of one record a minute."""

    async def made(**configs):
        log = open_log(segment_bytes=1_000, **configs)
        fill(log, 60, step=60_000)
        await log.durable()
        return log

    return made


def minute(number):
    return NOW + 60_000 * number


class TestByTime:
    async def test_young_segments_stay(self, filled):
        log = await filled()
        assert await log.retain(NOW + DAY) == 0

    async def test_segments_whose_newest_record_is_too_old(self, filled):
        log = await filled(retention_ms=30 * 60_000)
        now = minute(50)
        assert await log.retain(now) > 0
        assert log.start_offset == log.segments[0].base_offset
        assert log.segments[0].max_timestamp >= now - 30 * 60_000
        assert log.start_offset > 10
        assert records_of(log)[0].offset == log.start_offset
        assert await log.retain(now) == 0

    async def test_the_active_one_goes_too(self, filled):
        log = await filled(retention_ms=1_000)
        await log.retain(minute(1_000))
        assert (log.start_offset, log.end_offset, log.size) == (60, 60, 0)
        assert log.append(batch(b"a"), NOW).base_offset == 60
        assert await log.retain(NOW) == 0

    async def test_retention_without_limit_deletes_nothing(self, filled):
        log = await filled(retention_ms=-1)
        assert await log.retain(minute(10**9)) == 0

    async def test_records_without_timestamps_go_by_the_time_they_were_appended(self, open_log):
        log = open_log(retention_ms=1_000)
        log.append(batch(b"a", timestamp=-1), NOW)
        await log.durable()
        assert await log.retain(NOW + 1_000) == 0
        assert await log.retain(NOW + 1_001) == 1

    async def test_a_future_timestamp_keeps_its_segment(self, open_log):
        log = open_log(retention_ms=1_000)
        log.append(batch(b"a", timestamp=NOW + DAY), NOW)
        assert await log.retain(NOW + 10_000) == 0


class TestBySize:
    async def test_retention_bytes_stay_at_least(self, filled):
        log = await filled(retention_bytes=3_000)
        assert await log.retain(NOW) > 0
        assert 3_000 <= log.size < 4_000
        assert await log.retain(NOW) == 0

    async def test_log_below_retention_bytes_stays(self, filled):
        log = await filled(retention_bytes=10**6)
        assert await log.retain(NOW) == 0


class TestWithoutThePolicy:
    @pytest.mark.parametrize("policy", [frozenset(), frozenset({"compact"})])
    async def test_without_the_policy_only_trimmed_segments_go(self, filled, policy):
        log = await filled(cleanup_policy=policy, retention_ms=1, retention_bytes=1)
        assert await log.retain(minute(10**6)) == 0
        log.trim(30)
        gone = await log.retain(minute(10**6))
        assert gone > 0
        assert log.start_offset == 30
        assert log.segments[0].base_offset <= 30
        assert log.segments[1].base_offset > 30


class TestSegments:
    def test_segment_ends_segment_ms_after_its_first_record(self, open_log):
        log = open_log(segment_ms=1_000)
        log.append(batch(b"a", timestamp=NOW), NOW)
        log.append(batch(b"b", timestamp=NOW + 1_000), NOW)
        assert len(log.segments) == 1
        log.append(batch(b"c", timestamp=NOW + 1_001), NOW)
        assert [segment.base_offset for segment in log.segments] == [0, 2]

    def test_segment_without_timestamps_ends_by_the_clock(self, open_log):
        log = open_log(segment_ms=1_000)
        log.append(batch(b"a", timestamp=-1), NOW)
        log.append(batch(b"b", timestamp=-1), NOW + 1_001)
        assert len(log.segments) == 2

    def test_offsets_that_an_index_could_not_hold(self):
        log = memory_log(ORDERS, LogConfig())
        log.append(batch(b"a"), NOW)
        log.end_offset = 2**31
        log.append(batch(b"b"), NOW)
        assert [segment.base_offset for segment in log.segments] == [0, 2**31]
