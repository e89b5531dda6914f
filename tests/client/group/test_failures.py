"""What ends a membership, what does not, and what is told about it."""

import asyncio
import itertools

import pytest

from client.group.simulated import FOREVER, App, simulated, until
from client.group.world import ANSWERS
from kohort.assignors.base import Assignment, Assignor
from kohort.assignors.registry import assignor
from kohort.client.errors import BrokerUnreachableError
from kohort.client.group_errors import CoordinatorUnavailableError, GroupError, StuckError
from kohort.client.membership.events import End
from kohort.types import TopicPartition


async def idle(generation, partition):
    await generation.ending()


# --- the coordinator ---


@simulated()
async def test_a_restart_of_the_coordinator_is_not_noticed(world):
    app = App(world)
    await app.assigned(4)
    world.is_up = False
    world.coordinator.restart()
    await asyncio.sleep(10)
    world.coordinator.restart()
    world.is_up = True
    await asyncio.sleep(60)
    assert len(app.generations) == 1
    await app.stop()


@simulated()
async def test_a_broker_that_is_away_for_30_seconds_costs_the_generation_but_not_the_member(world):
    app = App(world)
    await app.assigned(4)
    world.is_up = False
    await asyncio.sleep(35)
    world.is_up = True
    await until(lambda: len(app.generations) == 2)
    assert app.generations[0].end is End.LOST
    await app.assigned(4)
    await app.stop()


@simulated()
async def test_one_that_was_never_there_is_raised_with_what_was_tried(world):
    world.is_up = False
    with pytest.raises(
        CoordinatorUnavailableError,
        match=(r"\d+ tries in \d+ ms, the last one: .*no broker answers"),
    ):
        await App(world).task
    assert 110_000 < world.now < 140_000


@simulated()
async def test_one_that_is_away_for_long_is_told_and_joined_again_when_it_is_back(world):
    events = []
    app = App(world, on_event=events.append)
    await app.assigned(4)
    world.is_up = False
    await asyncio.sleep(600)
    told = [event.detail for event in events if event.what == "unavailable"]
    assert 3 <= len(told) <= 5
    assert "no broker answers" in told[0]
    world.is_up = True
    await app.assigned(4)
    await app.stop()


@pytest.mark.parametrize("leads", [True, False])
@simulated()
async def test_metadata_that_cannot_be_had_for_long_ends_no_membership(world, leads):
    app = App(world)
    await app.assigned(4)
    usual = app.group.sim.metadata

    async def away(topics=None, **_):
        raise BrokerUnreachableError("no broker tells")

    app.group.sim.metadata = away
    other = App(world, session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
    await asyncio.sleep(10 if leads else 200)
    app.group.sim.metadata = usual
    await until(lambda: len(app.assignment) == len(other.assignment) == 2, seconds=900)
    await asyncio.gather(app.stop(), other.stop())


@simulated()
async def test_pauses_grow_up_to_the_backoff(world):
    world.is_up = False
    events = []
    app = App(
        world, on_event=lambda event: events.append((world.now, event)), join_group_backoff_ms=5_000
    )
    with pytest.raises(CoordinatorUnavailableError):
        await app.task
    times = [at for at, event in events if event.what == "retry"]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] < 300
    assert 4_000 <= max(pauses) <= 6_500


@simulated(topics={"orders": 4}, max_size=1)
async def test_a_full_group_is_raised(world):
    first = App(world)
    await first.assigned(4)
    second = App(world)
    with pytest.raises(GroupError, match=r"GROUP_MAX_SIZE_REACHED.*group.max.size"):
        await second.task
    await first.stop()


@simulated()
async def test_a_session_timeout_that_the_broker_refuses_is_raised(world):
    with pytest.raises(GroupError, match=r"INVALID_SESSION_TIMEOUT.*group.min.session.timeout.ms"):
        await App(world, session_timeout_ms=1_000, heartbeat_interval_ms=300).task


@simulated()
async def test_assignors_that_the_group_does_not_know_are_raised(world):
    first = App(world, assignors=["range"])
    await first.assigned(4)
    with pytest.raises(
        GroupError, match=(r"INCONSISTENT_GROUP_PROTOCOL.*configure one that all have")
    ):
        await App(world, assignors=["sticky"]).task
    await first.stop()


@simulated()
async def test_priority_decides_among_assignors(world):
    first = App(world, assignors=["roundrobin", "range"])
    second = App(world, assignors=["sticky", "roundrobin", "range"])
    await until(lambda: len(first.assignment) == len(second.assignment) == 2)
    assert first.generation.protocol == second.generation.protocol == "roundrobin"
    await asyncio.gather(first.stop(), second.stop())


class Broken(Assignor):
    name = "broken"

    def assign(self, topics, members):
        raise ZeroDivisionError("by no member")


@simulated()
async def test_an_assignor_that_fails_is_raised_by_the_leader(world):
    with pytest.raises(
        GroupError, match=(r"assignment of generation 1 could not be made.*by no member")
    ) as raised:
        await (app := App(world, assignors=[Broken()])).task
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert len(app.sent("leave_group")) == 1  # the others do not wait for its session to end


class Forgetful(Assignor):
    name = "forgetful"

    def assign(self, topics, members):
        return {member.member_id: Assignment(partitions=()) for member in members}


@simulated()
async def test_an_assignment_that_forgets_partitions_is_raised_and_not_sent(world):
    app = App(world, assignors=[Forgetful()])
    with pytest.raises(GroupError, match=r"'forgetful'.*orders-0 is assigned to no member"):
        await app.task
    assert app.sent("sync_group") == []


# --- static members ---


@simulated()
async def test_a_static_member_restarts_without_a_rebalance(world):
    def start():
        return App(world, instance_id="i1", session_timeout_ms=20_000)

    first, other = start(), App(world, instance_id="i2")
    await until(lambda: len(first.assignment) == len(other.assignment) == 2)
    rebalances = world.coordinator.rebalances
    mine = set(first.assignment)
    await first.stop()
    assert first.sent("leave_group") == []
    await asyncio.sleep(10)
    again = start()
    await again.assigned(2)
    await asyncio.sleep(30)
    assert world.coordinator.rebalances == rebalances
    assert set(again.assignment) == mine
    assert other.generation.end is None
    await asyncio.gather(again.stop(), other.stop())


@simulated()
async def test_the_second_of_an_instance_fences_the_first(world):
    first = App(world, instance_id="i1")
    await first.assigned(4)
    second = App(world, instance_id="i1")
    with pytest.raises(GroupError, match=r"FENCED_INSTANCE_ID.*one of its own"):
        await first.task
    assert first.generations[-1].end is End.LOST
    await second.assigned(4)
    await second.stop()


# --- slow, stuck, silent ---


@simulated()
async def test_long_work_costs_no_membership(world):
    world.produce(10)
    finished = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            await asyncio.sleep(600)
            await generation.commit({partition: batch.next_offset})
            finished.append(partition)

    app = App(world, work)
    await until(lambda: len(finished) >= 4, seconds=2_000)
    assert len(app.generations) == 1
    await app.stop()


@simulated()
async def test_a_stuck_task_is_named_with_where_it_stands(world):
    world.produce(50)
    stuck = TopicPartition("orders", 2)

    async def work(generation, partition):
        async for batch in generation.records(partition):
            if partition == stuck:
                await wait_for_ever()
            await generation.commit({partition: batch.next_offset})

    app = App(world, work, max_poll_interval_ms=60_000)
    with pytest.raises(
        StuckError, match=(r"orders-2 is stuck: the batch before offset \d+.*in work")
    ) as raised:
        await app.task
    assert "Raise max_poll_interval_ms" in str(raised.value)
    assert 60_000 <= world.now < 70_000
    assert world.coordinator.bench.shard.groups["g"].sessions == {}


async def wait_for_ever():
    await asyncio.sleep(FOREVER)


@simulated()
async def test_the_group_goes_on_even_if_the_stuck_task_does_not_end(world):
    world.produce(50)

    async def work(generation, partition):
        async for _ in generation.records(partition):
            for _ in range(20):
                try:
                    await asyncio.sleep(FOREVER)
                except asyncio.CancelledError:
                    continue

    stubborn = App(world, work, max_poll_interval_ms=60_000)
    await stubborn.assigned(4)
    other = App(world, idle)
    await other.assigned(4)
    assert not stubborn.task.done()
    with pytest.raises(StuckError):
        await stubborn.task
    await other.stop()


@simulated()
async def test_a_generation_that_nobody_takes_is_told(world):
    async with world.member(max_poll_interval_ms=60_000) as group:
        await asyncio.sleep(100)
        with pytest.raises(StuckError, match="to be requested"):
            await group.next()


@simulated()
async def test_work_within_the_limit_is_left_alone(world):
    world.produce(200)

    async def work(generation, partition):
        async for batch in generation.records(partition):
            await asyncio.sleep(50)
            await generation.commit({partition: batch.next_offset})

    app = App(world, work, max_poll_interval_ms=60_000)
    await until(lambda: sum(world.committed().values()) == 200, seconds=5_000)
    assert len(app.generations) == 1
    await app.stop()


@simulated()
async def test_a_slow_member_does_not_keep_the_others_waiting_beyond_its_drain_timeout(world):
    async def stubborn(generation, partition):
        await asyncio.sleep(FOREVER)

    slow = App(world, stubborn, drain_timeout_ms=10_000)
    await slow.assigned(4)
    began = world.now
    quick = App(world, idle)
    await quick.assigned(2)
    assert 10_000 <= world.now - began <= 14_500
    await asyncio.gather(slow.stop(), quick.stop())


@simulated()
async def test_a_killed_member_is_missed_after_its_session(world):
    first, second = App(world), App(world)
    await until(lambda: len(first.assignment) == len(second.assignment) == 2)
    began = world.now
    second.kill()
    await first.assigned(4)
    assert world.now - began <= 30_000 + 3_000 + 1_000
    await first.stop()


# --- what the application does ---


@simulated()
async def test_an_application_that_goes_on_after_each_failure_backs_off(world):
    async def poisoned():
        async with world.member() as group:
            async for generation in group:
                try:
                    async with generation:
                        for partition in generation.assignment:
                            generation.start(fail, partition)
                except ExceptionGroup:
                    continue

    async def fail(generation, partition):
        raise ValueError("poison")

    peer = App(world, idle)
    await peer.assigned(4)
    poisoning = world.loop.create_task(poisoned())
    await asyncio.sleep(5)
    soon = world.coordinator.rebalances
    await asyncio.sleep(60)
    assert soon <= 6
    assert world.coordinator.rebalances - soon <= 20
    poisoning.cancel()
    await peer.assigned(4)
    await peer.stop()


@simulated()
async def test_a_worker_that_returns_and_a_break_are_told_once(world):
    async def work(generation, partition):
        return

    events = []
    app = App(world, work, on_event=events.append)
    await app.assigned(4)
    await asyncio.sleep(60)
    (told,) = [event.detail for event in events if event.what == "idle"]
    assert told.startswith("no task works on orders-")
    assert "call group.stop() before" in told
    await app.stop()


@simulated()
@pytest.mark.parametrize("stops", [False, True])
async def test_a_break_in_a_generation_that_goes_on_is_told(world, stops):
    """It is a wait for the next rebalance, unless the group is stopped before."""
    events = []
    group = world.member(on_event=events.append)

    async def leave_soon():
        async with group:
            async for generation in group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(idle, partition)
                    if stops:
                        group.stop()
                    break

    leaving = asyncio.create_task(leave_soon())
    await asyncio.sleep(30)
    assert leaving.done() == stops
    other = App(world, idle)
    await asyncio.wait_for(leaving, 60)
    told = [event.detail for event in events if event.what == "idle"]
    if stops:
        assert told == []
    else:
        assert "left by break or return" in told[0]
        assert "Call group.stop() before" in told[0]
    await other.assigned(4)  # it has entered the group
    await other.stop()


@simulated()
async def test_a_topic_that_does_not_exist_is_told_once(world):
    events = []
    app = App(world, topics=["orders", "ordres"], on_event=events.append)
    await app.assigned(4)
    other = App(world)
    await app.assigned(2)
    (told,) = [event.detail for event in events if event.what == "missing"]
    assert told.startswith("no such topic: ordres. Check the name")
    await asyncio.gather(app.stop(), other.stop())


# --- heartbeats ---


@simulated()
async def test_heartbeats_and_joins_have_connections_of_their_own(world):
    app = App(world)
    await app.assigned(4)
    await until(
        lambda: (
            {name.split()[0] for name in app.group.sim.connections}
            == {"join", "heartbeat", "commit"}
        )
    )
    await app.stop()


@simulated()
async def test_events_tell_the_story(world):
    events = []
    app = App(world, on_event=events.append)
    await app.assigned(4)
    app.group.sim.reachable.clear()
    await asyncio.sleep(40)
    app.group.sim.reachable.set()
    await until(lambda: len(app.generations) == 2)
    await app.stop()
    whats = [event.what for event in events]
    assert whats[:2] == ["join", "generation"]
    assert (
        whats.index("heartbeat failed")
        < whats.index("lost")
        < whats.index("retry")
        < len(whats) - 1
    )
    assert whats[-1] == "left"
    assert {event.group_id for event in events} == {"g"}


@simulated()
async def test_statistics_tell_the_state(world):
    app = App(world)
    world.produce(20)
    await until(lambda: sum(world.committed().values()) == 20)
    told = app.group.statistics()
    assert (told["state"], told["generation"], told["partitions"], told["rebalances"]) == (
        "stable",
        1,
        4,
        1,
    )
    assert told["member_id"] == app.group.member_id
    assert app.group.generation_id == 1
    assert "stable gen=1" in repr(app.group)
    await app.stop()


@simulated()
async def test_a_signal_like_stop_during_a_join_is_quick(world):
    world.is_up = False
    app = App(world)
    await asyncio.sleep(3)
    began = world.now
    await app.stop()
    assert world.now - began < 6_000


@simulated()
async def test_closing_is_bounded_when_the_coordinator_is_away(world):
    app = App(world)
    await app.assigned(4)
    world.is_up = False
    began = world.now
    await app.stop()
    assert world.now - began < 6_000


# --- faults of our own, and of the application's ---


@pytest.mark.parametrize("api", ["join_group", "sync_group", "heartbeat"])
@simulated()
async def test_a_fault_of_the_client_is_raised_and_no_silence(world, api, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError("by no answer")

    monkeypatch.setitem(ANSWERS, api, broken)
    with pytest.raises(
        GroupError, match=(r"a fault of the client, report it: .*by no answer")
    ) as raised:
        await App(world).task
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@simulated()
async def test_an_error_of_on_event_is_logged_and_the_member_continues(world, caplog):
    def broken(event):
        raise ZeroDivisionError(event.what)

    app = App(world, on_event=broken)
    await app.assigned(4)
    await asyncio.sleep(60)
    assert len(app.generations) == 1
    await app.stop()
    assert "on_event raised an exception; the member continues" in caplog.text


class Touchy(Assignor):
    """`fails` says which of its methods raises, from when on."""

    name = "touchy"
    fails = ""

    def assign(self, topics, members):
        return assignor("range").assign(topics, members)

    def subscription_user_data(self, owned_partitions, generation):
        if self.fails == "subscription_user_data":
            raise ZeroDivisionError("by no subscription")

    def on_assignment(self, assignment, generation):
        if self.fails == "on_assignment":
            raise ZeroDivisionError("by no assignment")


@pytest.mark.parametrize("method", ["subscription_user_data", "on_assignment"])
@simulated()
async def test_an_error_of_a_custom_assignor_is_the_cause_of_the_group_error(world, method):
    touchy = Touchy()
    app = App(world, assignors=[touchy])
    await app.assigned(4)
    touchy.fails = method
    other = App(world, assignors=[Touchy()])
    with pytest.raises(GroupError, match="by no") as raised:
        await app.task
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert app.generations[0].end in (End.LOST, End.REVOKED)
    await other.assigned(4)
    await other.stop()


@pytest.mark.parametrize("stops", [True, False])
@simulated()
async def test_a_drain_that_fails_ends_the_membership_with_the_cause(world, stops):
    def broken(tp):
        raise ZeroDivisionError("by no removal")

    app = App(world)
    await app.assigned(4)
    app.group.fetcher.remove = broken
    began = world.now
    if stops:
        app.group.stop()
    else:
        world.topics["orders"] += [0]
    with pytest.raises(GroupError, match=r"draining of group g failed.*by no removal"):
        await app.task
    assert world.now - began < 6_000
    assert world.coordinator.bench.shard.groups["g"].sessions == {}


@simulated(delay_ms=(50, 50))
async def test_a_heartbeat_that_somebody_cancels_is_sent_again(world):
    app = App(world)
    await app.assigned(4)
    (heartbeat,) = await tasks_named("g Heartbeat")
    heartbeat.cancel()
    before = len(app.sent("heartbeat"))
    await asyncio.sleep(3)
    assert len(app.sent("heartbeat")) > before
    await asyncio.sleep(60)
    assert len(app.generations) == 1
    await app.stop()


async def tasks_named(name):
    """The tasks of that name, as soon as there are some."""
    found = []

    def find():
        found[:] = [task for task in asyncio.all_tasks() if task.get_name() == name]
        return found

    await until(find)
    return found
