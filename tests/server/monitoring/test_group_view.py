"""Groups as JSON, from shards that were driven through the protocol."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kohort.coordinator.journal import Cause, Rebalance
from kohort.protocol.subscription import Assignment, encode_assignment
from kohort.server.cluster.internode import LogOffsets
from kohort.server.monitoring import group_view
from kohort.server.monitoring.rebalance_durations import BOUNDS_S, RebalanceDurations
from kohort.testing.bench import Bench
from kohort.types import Timestamp, TopicPartition

TOPICS: Any = None
"""No classic group needs them."""


async def log_offsets(_: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogOffsets]:
    """Topic "t" has one partition that holds offsets 10 to 50."""
    return {TopicPartition("t", 0): LogOffsets(10, 50)}


ASSIGNED = encode_assignment(
    Assignment(partitions=(TopicPartition("t", 1), TopicPartition("t", 0)))
)


def stable(assignment: bytes = ASSIGNED, **options: Any) -> Bench:
    """A group with one member in generation 1."""
    bench = Bench()
    # Static members skip the handshake.
    enter = bench.join if "instance_id" in options else bench.handshake
    join = enter(client_id="c", **options)
    bench.advance(0)
    member_id = join.response.member_id
    bench.sync(
        "g",
        member_id,
        1,
        {member_id: assignment},
        protocol_type=options.get("protocol_type", "consumer"),
    )
    return bench


def view(bench: Bench) -> dict[str, Any]:
    shown = asyncio.run(group_view.details(bench.group(), TOPICS, bench.journal, log_offsets))()
    return json.loads(json.dumps(shown))  # type: ignore[no-any-return]


def test_a_stable_group() -> None:
    bench = stable(instance_id="i")
    shown = view(bench)
    (member_id,) = bench.group().sessions
    assert shown["state"] == "Stable"
    assert (shown["generation"], shown["leader"], shown["protocol"]) == (1, member_id, "range")
    assert shown["members"] == [
        {
            "member_id": member_id,
            "instance_id": "i",
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "assignment": [{"topic": "t", "partitions": [0, 1]}],
        }
    ]
    (round_,) = shown["journal"]
    assert round_["outcome"] == "stable"
    assert round_["causes"][0]["what"] == "joined"
    assert round_["members"] == [member_id]
    assert round_["joined"] is not None


def test_a_consumer_group() -> None:
    bench = Bench()
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=[], regex="t.*")
    shown = asyncio.run(
        group_view.details(bench.consumer_group(), TOPICS, bench.journal, log_offsets)
    )()
    assert (shown["type"], shown["state"], shown["epoch"]) == ("consumer", "Stable", 2)
    a, b = shown["members"]
    assert (a["client_id"], a["topics"], a["topic_regex"]) == ("client", ["t"], None)
    assert (b["topics"], b["topic_regex"]) == ([], "t.*")


def test_a_group_while_it_rebalances() -> None:
    bench = stable()
    bench.handshake(client_id="late")
    shown = view(bench)
    assert shown["state"] == "PreparingRebalance"
    assert [member["assignment"] for member in shown["members"]] == [
        [{"topic": "t", "partitions": [0, 1]}],
        [],
    ]


def test_offsets_have_the_lag_of_what_can_still_be_read() -> None:
    bench = Bench()
    for partition, offset in ((0, 30), (7, 3)):
        bench.commit("g", {TopicPartition("t", partition): offset})
    shown = view(bench)
    assert (shown["state"], shown["generation"], shown["leader"], shown["protocol"]) == (
        "Empty",
        0,
        None,
        None,
    )
    here, gone = shown["offsets"]
    assert (here["committed_offset"], here["start_offset"], here["end_offset"], here["lag"]) == (
        30,
        10,
        50,
        20,
    )
    assert (gone["committed_offset"], gone["start_offset"], gone["end_offset"], gone["lag"]) == (
        3,
        None,
        None,
        None,
    )
    assert shown["lag"] == 20


def test_other_protocols_and_unreadable_bytes_have_no_partitions() -> None:
    assert view(stable(protocol_type="connect"))["members"][0]["assignment"] is None
    assert view(stable(assignment=b"\xff"))["members"][0]["assignment"] is None


def test_a_summary_has_the_state_and_type_of_a_group() -> None:
    assert group_view.summary(stable().group()) == {
        "group_id": "g",
        "state": "Stable",
        "protocol_type": "consumer",
        "type": "classic",
    }


def ended(join_ms: int, sync_ms: int | None) -> Rebalance:
    joined = None if sync_ms is None else Timestamp(join_ms)
    return Rebalance(
        group="g",
        generation=1,
        causes=(Cause("joined", "m"),),
        outcome="stable",
        started=Timestamp(0),
        joined=joined,
        ended=Timestamp(join_ms + (sync_ms or 0)),
        members=(),
    )


def test_phases_are_counted_by_upper_bound() -> None:
    phases = RebalanceDurations()
    phases.observe(ended(5, 1_000))
    phases.observe(ended(400_000, None))
    join, sync = dict(phases.join.buckets()), dict(phases.sync.buckets())
    assert list(join) == [*map(str, BOUNDS_S), "+Inf"]
    assert (join["0.005"], join["300.0"], join["+Inf"]) == (1, 1, 2)
    assert (sync["0.5"], sync["1.0"], sync["+Inf"]) == (0, 1, 1)
    assert phases.join.sum_s == pytest.approx(400.005)


def test_topics_that_may_not_be_described_are_left_out() -> None:
    bench = stable()
    shown = asyncio.run(
        group_view.details(
            bench.group(), TOPICS, bench.journal, log_offsets, lambda name: name != "t"
        )
    )()
    assert [member["assignment"] for member in shown["members"]] == [[]]
    assert view(bench)["members"][0]["assignment"] != []
