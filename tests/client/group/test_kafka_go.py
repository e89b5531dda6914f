"""kafka-go's own observable behaviours of ConsumerGroup and Generation, one test each, in the order
of its own tests.

Where ours differs on purpose the test says how: kafka-go hands every error of an operation to
`Next`, and ends the generation; here what passes is tried again, and told, and only what stays is
raised.
"""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from client.group.simulated import FOREVER, App, simulated, until
from client.group.world import ANSWERS
from client.membership.bench import MembershipBench
from kohort.assignors import assignor, without_racks
from kohort.assignors.base import Member
from kohort.client.config import GroupConfig
from kohort.client.errors import BrokerUnreachableError
from kohort.client.group.group import ConsumerGroup, GroupClosedError
from kohort.client.group_errors import GenerationEndedError, GroupError
from kohort.client.membership.events import End, JoinGroup, Send, SyncGroup
from kohort.errors import ConfigError, ErrorCode, KohortError
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(4)]


# --- TestValidateConsumerGroupConfig ---

VALID = {"group_id": "group1", "topics": ["t1"]}
TWOS = VALID | {"heartbeat_interval_ms": 1, "session_timeout_ms": 2, "rebalance_timeout_ms": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"group_id": ""},
        {"group_id": "group1"},
        {"group_id": "", "topics": ["t1"]},
        VALID | {"topics": [""]},
        VALID | {"heartbeat_interval_ms": -1},
        VALID | {"heartbeat_interval_ms": 2**31},
        VALID | {"session_timeout_ms": -1},
        VALID | {"session_timeout_ms": 2**31},
        VALID | {"heartbeat_interval_ms": 2, "session_timeout_ms": -1},
        VALID | {"rebalance_timeout_ms": -2},
        VALID | {"rebalance_timeout_ms": 2**31},
        TWOS | {"retention_ms": -2},
        TWOS | {"retention_ms": 1, "start_offset": -123},
        TWOS | {"retention_ms": 1, "partition_watch_interval_ms": -1},
        TWOS | {"retention_ms": 1, "join_group_backoff_ms": -1},
    ],
)
def test_validation_refuses_what_kafka_go_refuses(options):
    with pytest.raises(ConfigError):
        GroupConfig(**options)


def test_validate_refuses_a_group_without_brokers():
    with pytest.raises(ConfigError, match="bootstrap"):
        ConsumerGroup(**VALID, bootstrap=[])


def test_validation_accepts_what_kafka_go_accepts():
    GroupConfig(**TWOS, retention_ms=1, partition_watch_interval_ms=1, join_group_backoff_ms=1)


def test_the_defaults_are_those_of_kafka_go():
    of = GroupConfig(**VALID)
    assert (of.heartbeat_interval_ms, of.session_timeout_ms, of.rebalance_timeout_ms) == (
        3_000,
        30_000,
        30_000,
    )
    assert (of.join_group_backoff_ms, of.partition_watch_interval_ms) == (5_000, 5_000)
    assert (of.retention_ms, of.start) == (-1, "first")


# --- TestReaderAssignTopicPartitions ---


@pytest.mark.parametrize(
    ("subscriptions", "assigned"),
    [
        ({}, {}),
        ({"m1": ["t1"]}, {"m1": ["t1-0", "t1-1", "t1-2"]}),
        ({"m1": ["t1", "t2"]}, {"m1": ["t1-0", "t1-1", "t1-2", "t2-0"]}),
        ({"m1": ["t1"], "m2": ["t1"]}, {"m1": ["t1-0", "t1-2"], "m2": ["t1-1"]}),
        ({"m1": ["t1"], "m2": ["t2"]}, {"m1": ["t1-0", "t1-1", "t1-2"], "m2": ["t2-0"]}),
    ],
)
def test_the_leader_assigns_by_the_chosen_protocol(subscriptions, assigned):
    members = [
        Member(member_id=name, topics=tuple(topics)) for name, topics in subscriptions.items()
    ]
    found = assignor("roundrobin").assign(without_racks({"t1": 3, "t2": 1}), members)
    assert {name: list(map(str, each.partitions)) for name, each in found.items()} == assigned


# --- TestConsumerGroup ---


@simulated()
async def test_next_returns_generations(world):
    """One at a time, of one member. Here a generation does not end because a function in it
    returns.
    """
    app = App(world, at_once)
    await app.assigned(4)
    await asyncio.sleep(30)
    assert len(app.generations) == 1
    world.topics["orders"] += [0]
    await app.assigned(5)
    first, second = app.generations
    assert first.id != second.id
    assert first.member_id == second.member_id == app.group.member_id
    assert first.end is End.REVOKED
    await app.stop()


@simulated()
async def test_next_is_refused_inside_a_generation(world):
    async with world.member() as group:
        async with await group.next() as generation:
            with pytest.raises(KohortError, match="leave the generation"):
                await group.next()
            group.stop()
        assert generation.end is End.CLOSED


@simulated()
async def test_next_that_is_cancelled_can_be_asked_again(world):
    async with world.member() as group:
        asking = asyncio.ensure_future(group.next())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with await group.next() as generation:
            assert sorted(generation.assignment) == ORDERS
            group.stop()


@simulated()
async def test_next_of_a_closed_group_says_so(world):
    group = world.member()
    async with group:
        pass
    with pytest.raises(GroupClosedError):
        await group.next()
    await group.close()  # once more is no error


# --- TestConsumerGroupErrors ---


def answers(error_code):
    """What each API answers with an error for the whole of it."""
    no_generation = {
        "generation_id": -1,
        "protocol_name": "",
        "leader": "",
        "skip_assignment": False,
    }
    return {
        "join_group": SimpleNamespace(
            error_code=error_code, member_id="", members=[], **no_generation
        ),
        "sync_group": SimpleNamespace(error_code=error_code, assignment=b""),
        "heartbeat": SimpleNamespace(error_code=error_code),
        "offset_fetch": SimpleNamespace(groups=[SimpleNamespace(error_code=error_code, topics=[])]),
    }


def failing(monkeypatch, api, fault, times):
    """The next requests of that API fail: with an error code, or since the connection breaks
    (None).
    """
    usual = ANSWERS[api]
    left = [fault] * times

    async def answer(coordinator, connection, fields):
        if not left:
            return await usual(coordinator, connection, fields)
        left.pop()
        if fault is None:
            raise BrokerUnreachableError(f"{api} failed")
        return answers(fault)[api]

    monkeypatch.setitem(ANSWERS, api, answer)
    return left


@simulated()
async def test_errors_of_finding_the_coordinator_are_tried_again(world):
    world.is_up = False
    told = []
    app = App(world, on_event=told.append)
    await asyncio.sleep(10)
    world.is_up = True
    await app.assigned(4)
    assert "no broker answers" in next(event.detail for event in told if event.what == "retry")
    await left_once(app)


@pytest.mark.parametrize(
    "fault", [None, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator]
)
@pytest.mark.parametrize("api", ["join_group", "sync_group", "offset_fetch"])
@simulated()
async def test_errors_that_pass_are_tried_again_and_the_member_leaves_once(
    world, api, fault, monkeypatch
):
    left = failing(monkeypatch, api, fault, 3)
    app = App(world)
    await app.assigned(4)
    assert left == []
    await left_once(app)


@pytest.mark.parametrize("api", ["join_group", "sync_group", "offset_fetch"])
@simulated()
async def test_errors_that_stay_are_raised_by_next(world, api, monkeypatch):
    failing(monkeypatch, api, ErrorCode.group_authorization_failed, 1_000)
    app = App(world)
    with pytest.raises(GroupError, match="GROUP_AUTHORIZATION_FAILED"):
        await app.task


@simulated()
async def test_a_leader_that_is_told_a_protocol_it_did_not_offer_says_so(world, monkeypatch):
    usual = ANSWERS["join_group"]

    async def answer(coordinator, connection, fields):
        told = await usual(coordinator, connection, fields)
        told.protocol_name = "foo" if told.generation_id > 0 else told.protocol_name
        return told

    monkeypatch.setitem(ANSWERS, "join_group", answer)
    with pytest.raises(
        GroupError, match=("chose the assignor 'foo', which this member did not offer")
    ):
        await App(world).task


@simulated()
async def test_a_leader_that_cannot_read_the_partitions_says_so(world):
    app = App(world)
    app.group.sim.metadata = no_metadata
    with pytest.raises(
        GroupError, match=(r"assignment of generation 1 could not be made.*cannot read")
    ):
        await app.task


async def no_metadata(*_, **__):
    raise KohortError("cannot read the topics' partitions")


async def left_once(app):
    member_id = app.group.member_id
    await app.stop()
    assert [
        [member["member_id"] for member in sent["members"]] for _, sent in app.sent("leave_group")
    ] == [[member_id]]


# --- TestGenerationExitsOnPartitionChange ---


@simulated()
async def test_the_partition_watcher_ends_the_generation_when_the_count_changes(world):
    app = App(world, partition_watch_interval_ms=1_000)
    await app.assigned(4)
    began = world.now
    world.topics["orders"] += [0]
    await until(lambda: app.generations[0].end is not None)
    assert world.now - began <= 1_200
    await app.assigned(5)
    await app.stop()


# --- TestGenerationStartsFunctionAfterClosed, TestGenerationEndsOnHeartbeatError ---


@simulated()
async def test_a_function_that_is_started_after_the_end_does_not_run(world):
    """kafka-go runs it with a context that is cancelled already."""
    ran = []

    async def body(generation):
        app.group.stop()
        await generation.ending()
        generation.start(at_once, ran.append(1))

    async def never(generation, partition):
        ran.append(partition)

    app = App(world, never, body)
    await app.task
    assert ran == [1]


@simulated()
async def test_functions_are_cancelled_and_joined_when_the_generation_ends(world):
    ended = []

    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.sleep(0)  # what it does last is waited for
            ended.append(generation.id)

    app = App(world, work, drain_timeout_ms=1_000)
    await app.assigned(4)
    await app.stop()
    assert ended == [1] * 4


@pytest.mark.parametrize("fault", [ErrorCode.unknown_member_id, ErrorCode.illegal_generation])
@simulated()
async def test_a_heartbeat_error_ends_the_generation(world, fault, monkeypatch):
    app = App(world)
    await app.assigned(4)
    failing(monkeypatch, "heartbeat", fault, 1)
    await until(lambda: len(app.generations) == 2)
    assert app.generations[0].end is End.LOST
    await app.stop()


@pytest.mark.parametrize("fault", [None, ErrorCode.coordinator_not_available])
@simulated()
async def test_one_that_passes_does_not(world, fault, monkeypatch):
    app = App(world)
    await app.assigned(4)
    left = failing(monkeypatch, "heartbeat", fault, 3)
    await asyncio.sleep(30)
    assert (left, len(app.generations)) == ([], 1)
    await app.stop()


# --- Generation.CommitOffsets ---


@simulated()
async def test_commit_offsets_inside_a_generation_and_not_after_it(world):
    kept = []

    async def body(generation):
        kept.append(generation)
        await generation.commit({ORDERS[0]: 7})
        app.group.stop()

    app = App(world, idle, body)
    await app.task
    assert world.committed() == {ORDERS[0]: 7}
    with pytest.raises(GenerationEndedError):
        await kept[0].commit({ORDERS[0]: 8})


# --- what the configuration says ---


@simulated()
async def test_join_group_backoff_bounds_the_pause_between_tries(world):
    world.is_up = False
    retries = []
    app = App(
        world,
        join_group_backoff_ms=2_000,
        on_event=lambda event: event.what == "retry" and retries.append(world.now),
    )
    await asyncio.sleep(60)
    pauses = [after - before for before, after in pairwise(retries)]
    assert 1_600 <= max(pauses) <= 2_500
    world.is_up = True
    await app.assigned(4)
    await app.stop()


@pytest.mark.parametrize(("start", "offset"), [("first", 0), ("last", 25)])
@simulated(topics={"orders": 1})
async def test_a_group_without_offsets_starts_at_start_offset(world, start, offset):
    world.produce(25)
    app = App(world, idle, start_offset=start)
    await app.assigned(1)
    assert app.generation.start_offset(ORDERS[0]) == offset
    await app.stop()


def test_join_and_sync_have_deadlines_that_include_the_timeouts():
    bench = MembershipBench(
        request_timeout_ms=5_000, rebalance_timeout_ms=20_000, session_timeout_ms=10_000
    )
    bench.join()
    bench.joined()
    within = {
        type(each.request): each.timeout_ms for each in bench.history if isinstance(each, Send)
    }
    assert within == {JoinGroup: 25_000, SyncGroup: 15_000}


@simulated()
async def test_assignors_are_offered_in_the_order_of_their_priority(world):
    app = App(world, assignors=["sticky", "roundrobin"])
    await app.assigned(4)
    assert [protocol["name"] for protocol in app.sent("join_group")[0][1]["protocols"]] == [
        "sticky",
        "roundrobin",
    ]
    assert app.generation.protocol == "sticky"
    await app.stop()


async def idle(generation, partition):
    await generation.ending()


async def at_once(generation, *_):
    """Returns while the generation goes on."""
