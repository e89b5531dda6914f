"""Groups of an embedded Kafka: kills, time, waiting, and the causes of rebalances."""

import pytest

from kohort.coordinator.requests import LeaveGroup, LeavingMember
from kohort.errors import ErrorCode, KafkaError
from kohort.testing import EmbeddedKafka
from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.group_state import GroupState
from testing.embedded.wire_member import WireMember, make_stable


def pair(kafka: EmbeddedKafka) -> tuple[WireMember, WireMember]:
    """Two members of a stable group."""
    members = WireMember(kafka.bootstrap, "a"), WireMember(kafka.bootstrap, "b")
    make_stable(*members)
    return members


def test_a_group_has_its_members_with_their_partitions(kafka: EmbeddedKafka) -> None:
    a, b = pair(kafka)
    group = kafka.group("billing").wait(state="Stable", members=2)
    assert {member.member_id: member.assignment for member in group.members} == {
        a.member_id: (("orders", 0),),
        b.member_id: (("orders", 1),),
    }
    assert [member.client_id for member in group.members] == ["a", "b"]
    assert (group.type, group.generation) == ("classic", 2)
    assert [rebalance.cause for rebalance in group.rebalances] == ["joined", "joined"]
    assert kafka.group("billing").explain() == ""


def test_a_group_is_read_with_the_journal_of_its_last_decision(embedded: EmbeddedKafka) -> None:
    member = WireMember(embedded.bootstrap)
    make_stable(member)

    async def leave_and_read(server: EmbeddedServer) -> GroupState:
        leaving = (LeavingMember(member_id=member.member_id, instance_id=None),)
        server.broker.groups.submit(
            LeaveGroup(on_response=print, version=3, group="billing", members=leaving)
        )
        return await server.read_group("billing")

    group = embedded._server.run(leave_and_read)
    assert (group.state, group.rebalances[-1].outcome) == ("Empty", "empty")


def test_a_killed_member_expires_and_a_connected_one_stays(kafka: EmbeddedKafka) -> None:
    kafka.freeze()
    a, b = pair(kafka)
    kafka.kill(member_id=a.member_id)
    kafka.advance(44)
    assert len(kafka.group("billing").members) == 2
    kafka.advance(2)
    group = kafka.group("billing").read()
    assert [member.member_id for member in group.members] == [b.member_id]
    assert group.rebalances[-1].cause == "session expired"
    assert group.rebalances[-1].outcome == "in progress"
    assert f"JoinGroup of {b.member_id} is awaited" in group.explanation
    assert b.heartbeat() == "rebalance_in_progress"
    b.send_join()
    b.joined()
    assert b.sync({b.member_id: 0}) == "none"
    group = kafka.group("billing").read()
    assert group.state == "Stable"
    assert group.rebalances[-1].outcome == "stable"
    assert group.rebalances[-1].cause == "session expired"


def test_a_member_keeps_its_session_over_any_time_while_it_is_connected(
    kafka: EmbeddedKafka,
) -> None:
    member = WireMember(kafka.bootstrap)
    make_stable(member)
    kafka.advance(3_600)
    assert member.heartbeat() == "none"
    member.close()
    kafka.advance_until(lambda: kafka.group("billing").state == "Empty", at_most_seconds=60)


def test_a_killed_client_cannot_come_back_until_it_is_revived(kafka: EmbeddedKafka) -> None:
    a, b = pair(kafka)
    kafka.kill(client_id="a")
    with pytest.raises(ConnectionError):
        a.heartbeat()
    again = WireMember(kafka.bootstrap, "a")
    with pytest.raises(ConnectionError):
        again.send_join()
    assert b.heartbeat() == "none"
    kafka.revive()
    WireMember(kafka.bootstrap, "a").send_join()


def test_a_killed_member_cannot_leave_its_group(kafka: EmbeddedKafka) -> None:
    a, _ = pair(kafka)
    kafka.kill(member_id=a.member_id)
    other = WireMember(kafka.bootstrap, "a")
    with pytest.raises(ConnectionError):
        other.ask("leave_group", 3, group_id="billing", members=[{"member_id": a.member_id}])
    assert len(kafka.group("billing").members) == 2


def test_a_killed_member_may_leave_when_the_test_ends(kafka: EmbeddedKafka) -> None:
    a, _ = pair(kafka)
    kafka.kill(client_id="a")
    kafka.let_killed_leave()
    again = WireMember(kafka.bootstrap, "a")
    again.member_id, again.generation = a.member_id, a.generation
    assert again.commit(1) == "none"
    again.ask("leave_group", 3, group_id="billing", members=[{"member_id": a.member_id}])
    assert len(kafka.group("billing").members) == 1
    assert again.heartbeat() == "none", "else it would join again"
    again.member_id = ""
    with pytest.raises(ConnectionError):
        again.send_join()


def test_frozen_time_expires_no_member(kafka: EmbeddedKafka) -> None:
    kafka.freeze()
    member = WireMember(kafka.bootstrap, session_timeout_ms=10_000)
    make_stable(member)
    member.close()
    kafka.advance(9)
    assert kafka.group("billing").state == "Stable"
    kafka.advance(1)
    assert kafka.group("billing").state == "Empty"


def test_a_wait_in_vain_tells_who_is_awaited(kafka: EmbeddedKafka) -> None:
    a, b = pair(kafka)
    newcomer = WireMember(kafka.bootstrap, "c")
    newcomer.send_join()
    with pytest.raises(AssertionError) as raised:
        kafka.group("billing").wait(state="Stable", members=3, timeout=0)
    text = str(raised.value)
    assert "did not reach state=Stable members=3" in text
    assert "PreparingRebalance: members have to rejoin" in text
    assert f"JoinGroup of {a.member_id} is awaited for at most" in text
    assert f"JoinGroup of {b.member_id} is awaited" in text
    assert f"JoinGroup of {newcomer.member_id}" not in text


def test_a_wait_polls_the_clients_of_the_test(kafka: EmbeddedKafka) -> None:
    member = WireMember(kafka.bootstrap)
    steps = iter([member.send_join, member.joined, lambda: member.sync({member.member_id: 0})])
    group = kafka.group("billing").wait(state="Stable", members=1, poll=lambda: next(steps)())
    assert group.members[0].member_id == member.member_id


def test_a_group_that_does_not_exist_is_dead(kafka: EmbeddedKafka) -> None:
    group = kafka.group("nobody").read()
    assert (group.state, group.generation, group.members) == ("Dead", -1, ())
    assert "no client has joined it" in group.explanation


def test_offsets_are_committed_by_members_and_by_the_test(kafka: EmbeddedKafka) -> None:
    group = kafka.group("billing")
    group.commit({("orders", 3): 7})
    member = WireMember(kafka.bootstrap)
    make_stable(member)
    assert member.commit(5) == "none"
    found = group.wait(committed={("orders", 0): 5})
    assert dict(found.committed) == {("orders", 0): 5, ("orders", 3): 7}
    with pytest.raises(KafkaError) as refused:
        group.commit({("orders", 0): 0})
    assert refused.value.code is ErrorCode.unknown_member_id
    with pytest.raises(KafkaError, match="no topic 'payments'"):
        group.commit({("payments", 0): 0})


def test_the_timeline_has_rebalances_kills_and_time(kafka: EmbeddedKafka) -> None:
    a, _ = pair(kafka)
    kafka.kill(member_id=a.member_id)
    kafka.advance(45)
    lines = kafka.timeline.splitlines()
    assert [line.split(" ", 1)[1] for line in lines[-2:]] == [
        f"killed {a.member_id}: 1 connections",
        "advance by 45 s",
    ]
    assert "group billing: stable generation 2" in kafka.timeline


def test_offsets_expire_when_time_passes() -> None:
    with EmbeddedKafka({"offsets.retention.minutes": 60}) as kafka:
        kafka.topic("orders")
        kafka.group("billing").commit({("orders", 0): 1})
        kafka.advance(3_000)
        assert kafka.group("billing").committed == {("orders", 0): 1}
        kafka.advance(2_000)
        assert kafka.group("billing").committed == {}
