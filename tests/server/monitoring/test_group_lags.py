"""Lag in time by sampled ends and by timestamps of the log, on a server in the process."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from effort import examples
from kohort.cli import app
from kohort.client import Producer
from kohort.client.admin import time_lags
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.lag import Case, EndSample, Method, lag_by_samples
from kohort.protocol.batch_writing import build
from kohort.protocol.records import Record
from kohort.server.broker import Broker
from kohort.server.cluster import LogOffsets
from kohort.server.config.config import Config
from kohort.server.monitoring.end_samples import CAPACITY, EndRing
from kohort.server.monitoring.group_lags import GroupLag, GroupLags
from kohort.server.monitoring.observer import Observer
from kohort.types import GroupId, Instant, Timestamp, TopicPartition
from turns import BOUND_MS, longest_turn_ms

G = GroupId("billing")
TP = TopicPartition("orders", 0)
NOON = 1_769_860_800_000
MANY = 10_000


class SetClock:
    """A clock that a test sets; deadlines have their own time, which stands."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> Instant:
        return Instant(0)

    def timestamp(self) -> Timestamp:
        return Timestamp(self.time)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def broker(clock: SetClock) -> AsyncIterator[Broker]:
    config = Config({"listeners": "127.0.0.1:0", "storage": "memory", "log.retention.ms": "-1"})
    async with Broker(config) as broker:
        await broker.groups.loaded()
        broker.observer = Observer(_observed(broker), clock=clock)
        yield broker


def _observed(broker: Broker) -> Any:
    return broker.observer._server


@pytest.fixture
async def admin(broker: Broker) -> AsyncIterator[Admin]:
    async with Cluster(bootstrap=str(broker.address)) as cluster:
        made = Admin(cluster)
        await made.create_topic("orders", partitions=1)
        yield made


def append(broker: Broker, count: int, timestamp: int, tp: TopicPartition = TP) -> None:
    log = broker.topics.log(*tp)
    assert log is not None
    records = [Record(None, b"", timestamp=timestamp) for _ in range(count)]
    log.append(build(records), Timestamp(timestamp))


async def commit(admin: Admin, offset: int, tp: TopicPartition = TP) -> None:
    outcomes = await admin.commit(G, {tp: OffsetAndMetadata(offset=offset)})
    assert set(outcomes.values()) == {None}


def lag_of(broker: Broker, committed: int) -> GroupLag:
    log = broker.topics.log(*TP)
    assert log is not None
    offsets = LogOffsets(log.start_offset, log.high_watermark)
    return GroupLags(broker.observer.end_samples, broker.topics).lag(TP, committed, offsets)


# --- samples


async def test_the_lag_is_the_time_since_a_sampled_end_passed_the_commit(
    broker: Broker, admin: Admin, clock: SetClock
) -> None:
    await commit(admin, 50)
    for minute in range(11):
        clock.time = NOON + minute * 60_000
        await broker.observer.end_samples.sample()
        append(broker, 10, clock.time)
    found = lag_of(broker, 50)
    assert found.records.lag == 60
    assert found.time.method is Method.SAMPLED
    assert found.time.lag_ms == 5 * 60_000
    assert lag_of(broker, 110).time.lag_ms == 0


async def test_a_group_that_lags_since_before_the_first_sample_has_the_lag_of_its_batch(
    broker: Broker, admin: Admin, clock: SetClock
) -> None:
    """As after a restart of the server."""
    for minute in range(60):
        append(broker, 10, NOON - 3_600_000 + minute * 60_000)
    await commit(admin, 200)
    assert lag_of(broker, 200).time.method is Method.NONE
    await broker.observer.end_samples.sample()
    found = lag_of(broker, 200)
    assert found.time.lag_ms is not None
    assert found.time.confidence_ms is not None
    assert abs(found.time.lag_ms - 40 * 60_000) <= 60_000


async def test_markers_of_transactions_at_the_end_are_no_lag(broker: Broker, admin: Admin) -> None:
    async with (
        Producer(admin.cluster, transactional_id="t") as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait("orders", b"", partition=0)
    found = lag_of(broker, 1)
    assert (found.records.lag, found.records.case, found.time.lag_ms) == (0, Case.MARKERS, 0)
    assert lag_of(broker, 0).records.lag == 2


async def test_a_single_unread_record_is_a_lag(broker: Broker, admin: Admin) -> None:
    await commit(admin, 0)
    append(broker, 1, NOON)
    assert lag_of(broker, 0).records == (await _records(broker))


async def _records(broker: Broker) -> Any:
    shown = json.loads((await broker.observer.group(G)).body)
    (row,) = shown["offsets"]
    assert (shown["lag"], row["lag"], row["case"], row["lost"]) == (1, 1, "ok", 0)
    return lag_of(broker, 0).records


async def test_metrics_and_the_view_of_a_group_have_the_same_lag(
    broker: Broker, admin: Admin, clock: SetClock
) -> None:
    await commit(admin, 0)
    await broker.observer.end_samples.sample()
    append(broker, 4, NOON)
    clock.time += 90_000
    text = (await broker.observer.metrics("")).body.decode()
    labels = '{group="billing",partition="0",topic="orders"}'
    assert f"kohort_group_lag{labels} 4.0\n" in text
    assert f"kohort_group_lag_seconds{labels} 90.0\n" in text
    assert "kohort_group_lost_offsets{" not in text
    shown = json.loads((await broker.observer.group(G)).body)
    (row,) = shown["offsets"]
    assert (row["lag"], row["lag_ms"], row["method"]) == (4, 90_000, "sampled")
    assert (shown["lag"], shown["lag_ms"]) == (4, 90_000)
    (line,) = json.loads((await broker.observer.groups("")).body)["groups"]
    assert (line["lag"], line["lag_ms"]) == (4, 90_000)


async def test_metrics_count_what_retention_deleted_unread(broker: Broker, admin: Admin) -> None:
    append(broker, 10, NOON)
    await commit(admin, 3)
    await admin.delete_records({TP: 8})
    text = (await broker.observer.metrics("")).body.decode()
    labels = '{group="billing",partition="0",topic="orders"}'
    assert f"kohort_group_lost_offsets{labels} 5.0\n" in text
    assert f"kohort_group_lag{labels} 2.0\n" in text


async def test_samples_of_partitions_that_no_group_commits_are_forgotten(
    broker: Broker, admin: Admin
) -> None:
    samples = broker.observer.end_samples
    await commit(admin, 0)
    append(broker, 1, NOON)
    await samples.sample()
    assert len(list(samples.up_to_now(TP, 1, NOON))) == 2
    await admin.delete_groups([G])
    await samples.sample()
    assert len(list(samples.up_to_now(TP, 1, NOON))) == 1


@pytest.mark.timeout(600)
async def test_sampling_and_a_scrape_of_10_000_partitions_take_bounded_turns(
    broker: Broker, admin: Admin, clock: SetClock
) -> None:
    await admin.create_topic("wide", partitions=MANY)
    partitions = [TopicPartition("wide", number) for number in range(MANY)]
    for start in range(0, MANY, 1_000):
        some = {tp: OffsetAndMetadata(offset=0) for tp in partitions[start : start + 1_000]}
        assert set((await admin.commit(G, some)).values()) == {None}
    for tp in partitions:
        append(broker, 3, NOON - 1_000, tp)
    samples = broker.observer.end_samples
    await samples.sample()
    clock.time += 30_000
    sampling_ms, _ = await longest_turn_ms(samples.sample())
    scrape_ms, _ = await longest_turn_ms(broker.observer.metrics(""))
    assert sampling_ms < BOUND_MS
    assert scrape_ms < BOUND_MS


# --- one group, shown in three ways


Shown: TypeAlias = dict[int, tuple[int | None, int, int | None]]
"""Partition → lag, lost offsets, and lag in ms."""


async def described(broker: Broker, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The partitions of the group as `kohort groups describe` has them."""
    words = ["groups", "describe", G, "-b", str(broker.address), "--output", "json"]
    assert await asyncio.to_thread(app.run, words) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    rows: list[dict[str, Any]] = entry["offsets"]
    return rows


async def scraped(broker: Broker) -> Shown:
    """The same figures from the metrics."""
    text = (await broker.observer.metrics("")).body.decode()
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("group") == G and "partition" in sample.labels:
                values[sample.name][int(sample.labels["partition"])] = sample.value
    return {
        number: (
            int(lag),
            int(values["kohort_group_lost_offsets"].get(number, 0)),
            round(values["kohort_group_lag_seconds"][number] * 1000),
        )
        for number, lag in values["kohort_group_lag"].items()
    }


def figures(rows: list[dict[str, Any]]) -> Shown:
    return {row["partition"]: (row["lag"], row["lost"], row["lag_ms"]) for row in rows}


async def test_describe_metrics_and_the_view_of_a_group_agree_at_one_time(
    broker: Broker,
    admin: Admin,
    clock: SetClock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind, caught_up, passed, stale, markers, between = (
        TopicPartition("lags", number) for number in range(6)
    )
    clock_of_describe = SimpleNamespace(time_ns=lambda: clock.time * 1_000_000)
    monkeypatch.setattr(time_lags, "time", clock_of_describe)
    await admin.create_topic("lags", partitions=6)
    offsets = {behind: 50, caught_up: 110, passed: 3, stale: 500, markers: 1, between: 53}
    for tp, offset in offsets.items():
        await commit(admin, offset, tp)
    for minute in range(11):
        clock.time = NOON + minute * 60_000
        await broker.observer.end_samples.sample()
        for tp in (behind, caught_up, passed, stale, between):
            append(broker, 10, clock.time, tp)
    await admin.delete_records({passed: 50})
    async with Producer(admin.cluster, transactional_id="t") as producer, producer.transaction():
        await producer.send_and_wait("lags", b"", partition=markers.partition)
    clock.time += 30_000
    rows = await described(broker, capsys)
    view = json.loads((await broker.observer.group(G)).body)["offsets"]
    assert {row["partition"]: row["case"] for row in rows} == {
        row["partition"]: row["case"] for row in view
    }
    exact = {
        behind.partition: (60, 0, 330_000),
        caught_up.partition: (0, 0, 0),
        passed.partition: (60, 47, 330_000),
        stale.partition: (0, 0, 0),
        markers.partition: (0, 0, 0),
    }
    # The server samples: within a minute it takes for granted that records came evenly.
    assert figures(rows) == exact | {between.partition: (57, 0, 330_000)}
    assert figures(view) == exact | {between.partition: (57, 0, 312_000)}
    assert view[between.partition]["confidence_ms"] == 30_000
    assert await scraped(broker) == figures(view)


# --- one ring


def test_the_first_and_the_last_of_equal_ends_stay() -> None:
    ring = EndRing()
    for time in range(0, 300, 30):
        ring.add(time, 5)
    assert list(ring) == [EndSample(0, 5), EndSample(270, 5)]


def test_a_clock_that_was_set_back_and_a_smaller_end_drop_what_contradicts_them() -> None:
    ring = EndRing()
    for time, end in ((0, 1), (30, 5), (60, 9), (45, 10)):
        ring.add(time, end)
    assert list(ring) == [EndSample(0, 1), EndSample(30, 5), EndSample(45, 10)]
    ring.add(90, 2)
    assert list(ring) == [EndSample(0, 1), EndSample(90, 2)]


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 50)), max_size=300),
    position=st.integers(0, 5_000),
)
def test_a_full_ring_keeps_the_interval_of_each_append(
    steps: list[tuple[int, int]], position: int
) -> None:
    ring, every = EndRing(), [EndSample(0, 0)]
    ring.add(0, 0)
    for time, end in steps:
        every.append(EndSample(every[-1].time + time, every[-1].end + end))
        ring.add(*every[-1])
    assert len(ring) <= CAPACITY + 1
    at = every[-1].time
    exact, kept = lag_by_samples(position, every, at), lag_by_samples(position, ring, at)
    assert exact.lag_ms is not None
    assert kept.lag_ms is not None
    assert exact.confidence_ms is not None
    assert kept.confidence_ms is not None
    assert abs(kept.lag_ms - exact.lag_ms) <= 2 * kept.confidence_ms
    assert kept.confidence_ms >= exact.confidence_ms


@settings(max_examples=examples(60))
@given(
    samples=st.lists(st.tuples(st.integers(-5, 100), st.integers(0, 100))),
    seeds=st.lists(st.tuples(st.integers(-5, 100), st.integers(0, 100))),
)
def test_times_and_ends_of_a_ring_ascend_whatever_comes(
    samples: list[tuple[int, int]], seeds: list[tuple[int, int]]
) -> None:
    ring = EndRing()
    for sample, seed in zip(samples, seeds, strict=False):
        ring.add(*sample)
        ring.seed(*seed)
    kept = list(ring)
    assert [sample.time for sample in kept] == sorted({sample.time for sample in kept})
    assert [sample.end for sample in kept] == sorted(sample.end for sample in kept)
