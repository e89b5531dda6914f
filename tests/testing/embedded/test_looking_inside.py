"""Requests, responses, transactions and phases of rebalances of an embedded Kafka, as values."""

import pytest

from kohort.client.sync import Producer
from kohort.protocol.apis import BY_NAME
from kohort.testing import EmbeddedKafka
from kohort.testing.embedded.exchange_log import (
    MAX_EXCHANGES,
    MAX_MESSAGE_BYTES,
    LoggedExchange,
)
from testing.embedded.wire_member import WireClient, WireMember, make_stable


def of(kafka: EmbeddedKafka, api: str) -> list[LoggedExchange]:
    return [each for each in kafka.exchanges if each.api == api]


@pytest.fixture
def member(kafka: EmbeddedKafka) -> WireMember:
    member = WireMember(kafka.bootstrap, "a")
    make_stable(member)
    return member


def test_a_request_and_its_response_have_the_fields_of_their_schemas(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    assert member.commit(7) == "none"
    (commit,) = of(kafka, "OffsetCommit")
    assert (commit.client_id, commit.version, commit.outcome) == ("a", 7, "responded")
    assert commit.request is not None
    assert commit.request["group_id"] == "billing"
    (topic,) = commit.request["topics"]  # type: ignore[misc]
    assert topic["name"] == "orders"
    assert topic["partitions"][0]["committed_offset"] == 7
    assert commit.response == {
        "throttle_time": 0,
        "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "error_code": "NONE"}]}
        ],
    }
    assert str(commit) == "a: OffsetCommit v7 responded"
    numbers = [each.number for each in kafka.exchanges]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_repeated_request_is_logged_each_time(kafka: EmbeddedKafka, member: WireMember) -> None:
    for _ in range(3):
        assert member.heartbeat() == "none"
    assert [each.outcome for each in of(kafka, "Heartbeat")] == ["responded"] * 3


def test_a_parked_request_waits_until_its_connection_is_closed(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    second = WireMember(kafka.bootstrap, "b")
    second.send_join()
    kafka.group("billing").wait(state="PreparingRebalance")
    parked = of(kafka, "JoinGroup")[-1]
    assert (parked.client_id, parked.outcome, parked.response) == ("b", "waiting", None)
    rebalance = kafka.group("billing").rebalances[-1]
    assert rebalance.sync_ms == 0
    assert rebalance.join_ms == rebalance.duration_ms
    kafka.kill(client_id="b")
    while of(kafka, "JoinGroup")[-1].outcome != "closed":
        pass
    assert member.heartbeat() == "rebalance_in_progress"


def test_timers_are_in_the_order_in_which_they_fire(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    kafka.freeze()
    second = WireMember(kafka.bootstrap, "b", session_timeout_ms=10_000)
    second.send_join()
    kafka.group("billing").wait(state="PreparingRebalance")
    timers = kafka.timers
    assert (timers[0].name, timers[0].member_id) == ("SessionExpires", member.member_id)
    assert {(each.name, each.group, each.member_id) for each in timers[1:]} == {
        ("JoinPhaseEnds", "billing", None),
        ("SessionExpires", "billing", second.member_id),  # the join timeout of a new member
    }
    due = [each.due_in_ms for each in timers]
    assert due == sorted(due)
    assert 10_000 < due[0] <= 45_000 < due[1] <= 300_000
    kafka.advance(5)
    assert due[1] - kafka.timers[1].due_in_ms >= 5_000
    kafka.resume()


def test_faults_are_outcomes(kafka: EmbeddedKafka, member: WireMember) -> None:
    kafka.fail("Heartbeat", error="UNKNOWN_MEMBER_ID")
    member.heartbeat()
    (failed,) = of(kafka, "Heartbeat")
    assert failed.response == {"throttle_time": 0, "error_code": "UNKNOWN_MEMBER_ID"}
    kafka.throttle("Heartbeat", seconds=0.001)
    member.heartbeat()
    assert of(kafka, "Heartbeat")[-1].response == {"throttle_time": 1, "error_code": "NONE"}
    kafka.drop("Heartbeat")
    with pytest.raises(ConnectionError):
        member.heartbeat()
    assert of(kafka, "Heartbeat")[-1].outcome == "cut"
    assert of(kafka, "Heartbeat")[-1].response is None


def test_phases_of_a_rebalance_add_up(kafka: EmbeddedKafka, member: WireMember) -> None:
    rebalance = kafka.group("billing").rebalances[-1]
    assert rebalance.join_ms + rebalance.sync_ms == rebalance.duration_ms


def test_a_message_beyond_the_limit_has_no_values(kafka: EmbeddedKafka) -> None:
    with Producer(bootstrap=kafka.bootstrap) as producer:
        producer.send_and_wait("orders", bytes(MAX_MESSAGE_BYTES))
    (produced,) = of(kafka, "Produce")
    assert produced.request is None
    assert produced.response is not None


def test_the_latest_exchanges_are_kept(kafka: EmbeddedKafka) -> None:
    client = WireClient(kafka.bootstrap)
    for _ in range(MAX_EXCHANGES + 5):
        client.ask("metadata", 9)
    kept = kafka.exchanges
    assert len(kept) == MAX_EXCHANGES
    assert kept[0].number == 6


def test_a_transaction_has_its_partitions_until_its_end(kafka: EmbeddedKafka) -> None:
    assert kafka.transactions == []
    client = WireClient(kafka.bootstrap)
    version = BY_NAME["init_producer_id"].max_version
    started = client.ask(
        "init_producer_id",
        version,
        transactional_id="shop",
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    (empty,) = kafka.transactions
    assert (empty.transactional_id, empty.state, empty.partitions) == ("shop", "Empty", ())
    assert (empty.producer_id, empty.timeout_ms) == (started.producer_id, 60_000)
    client.ask(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id="shop",
        v3_and_below_producer_id=started.producer_id,
        v3_and_below_producer_epoch=started.producer_epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": [2, 1]}],
    )
    (timer,) = kafka.timers
    assert (timer.name, timer.transactional_id) == ("TransactionTimesOut", "shop")
    assert 0 < timer.due_in_ms <= 60_000
    (ongoing,) = kafka.transactions
    assert ongoing.state == "Ongoing"
    assert ongoing.partitions == (("orders", 1), ("orders", 2))
