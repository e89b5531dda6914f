"""Faults: requests that are refused, delayed or dropped, each counted and in the timeline."""

import pytest

from kohort.errors import KafkaError, KohortError
from kohort.testing import EmbeddedKafka
from kohort.testing.embedded import verbs
from kohort.testing.embedded.error_responses import REFUSABLE
from kohort.testing.embedded.faults import find_api, names_groups
from testing.embedded.wire_member import WireClient, WireMember, make_stable


@pytest.fixture
def member(kafka: EmbeddedKafka) -> WireMember:
    member = WireMember(kafka.bootstrap, "a")
    make_stable(member)
    return member


def test_the_next_requests_get_the_error_and_have_no_effect(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    fault = kafka.fail("OffsetCommit", error="NOT_COORDINATOR", times=2)
    assert member.commit(1) == "not_coordinator"
    assert member.commit(2) == "not_coordinator"
    assert kafka.group("billing").committed == {}
    assert member.commit(3) == "none"
    assert kafka.group("billing").committed == {("orders", 0): 3}
    assert fault.met == 2
    kafka.verify_faults()
    assert "fault: OffsetCommit fails with NOT_COORDINATOR" in kafka.timeline


def test_repeated_requests_meet_faults_too(kafka: EmbeddedKafka, member: WireMember) -> None:
    for _ in range(3):
        assert member.heartbeat() == "none"
        assert member.commit(1) == "none"
    kafka.fail("Heartbeat", error="UNKNOWN_MEMBER_ID")
    kafka.fail("OffsetCommit", error="NOT_COORDINATOR")
    assert member.heartbeat() == "unknown_member_id"
    assert member.commit(1) == "not_coordinator"


def test_a_fault_meets_only_the_requests_that_it_names(
    embedded: EmbeddedKafka,
) -> None:
    member = WireMember(embedded.bootstrap, "a")
    make_stable(member)
    of_others = [
        embedded.fail("OffsetCommit", error="NOT_COORDINATOR", group="shipping", required=False),
        embedded.fail("OffsetCommit", error="NOT_COORDINATOR", client_id="b", required=False),
        embedded.fail(
            "OffsetCommit",
            error="NOT_COORDINATOR",
            when=lambda request: request.topics[0].name == "payments",
            required=False,
        ),
    ]
    assert member.commit(1) == "none"
    assert [fault.met for fault in of_others] == [0, 0, 0]
    embedded.fail(
        "OffsetCommit",
        error="NOT_COORDINATOR",
        group="billing",
        client_id="a",
        when=lambda request: request.topics[0].name == "orders",
    )
    assert member.commit(2) == "not_coordinator"


def test_a_dropped_request_has_no_effect_unless_it_was_applied(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    kafka.drop("OffsetCommit")
    with pytest.raises(ConnectionError):
        member.commit(1)
    assert kafka.group("billing").committed == {}
    again = WireMember(kafka.bootstrap, "a")
    again.member_id, again.generation = member.member_id, member.generation
    kafka.drop("OffsetCommit", applied=True)
    with pytest.raises(ConnectionError):
        again.commit(2)
    assert kafka.group("billing").wait(committed={("orders", 0): 2})


def test_a_delayed_request_waits_for_the_time_of_the_server(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    kafka.freeze()
    kafka.delay("OffsetCommit", seconds=30)
    member.send(
        "offset_commit",
        7,
        group_id="billing",
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
        topics=[
            {
                "name": "orders",
                "partitions": [{"partition_index": 0, "committed_offset": 1}],
            }
        ],
    )
    kafka.advance(0)
    assert "is delayed by 30 s" in kafka.timeline
    kafka.advance(29)
    assert kafka.group("billing").committed == {}
    kafka.advance(1)
    assert member.receive("offset_commit", 7).topics
    assert kafka.group("billing").committed == {("orders", 0): 1}


def test_a_fault_that_no_request_met_is_an_error_at_the_end() -> None:
    kafka = EmbeddedKafka().start()
    kafka.drop("OffsetCommit", group="billing")
    with pytest.raises(AssertionError, match="OffsetCommit group=billing is dropped"):
        kafka.__exit__(None, None, None)
    with EmbeddedKafka() as kafka:
        kafka.drop("OffsetCommit", required=False)
    with EmbeddedKafka() as kafka:
        kafka.drop("OffsetCommit")
        kafka.clear_faults()


@pytest.mark.parametrize(
    ("api", "error", "hint"),
    [
        ("OffsetComit", "NOT_COORDINATOR", "did you mean OffsetCommit?"),
        ("OffsetCommit", "NOT_COORDINATER", "did you mean NOT_COORDINATOR?"),
        ("Fetch", "NOT_COORDINATOR", "Fetch cannot be failed with an error"),
    ],
)
def test_wrong_names_of_faults_are_refused_with_a_hint(
    kafka: EmbeddedKafka, api: str, error: str, hint: str
) -> None:
    with pytest.raises(KohortError) as refused:
        kafka.fail(api, error=error)
    assert hint in str(refused.value)


def test_a_truncated_response_ends_in_the_middle_and_its_request_took_effect(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    kafka.truncate("OffsetCommit")
    with pytest.raises(ConnectionError):
        member.commit(1)
    assert 0 < member.received < member.expected
    assert kafka.group("billing").wait(committed={("orders", 0): 1})
    assert "gets half of its response" in kafka.timeline


def test_a_throttled_client_is_told_for_how_long_and_waits(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    kafka.freeze()
    fault = kafka.throttle("Heartbeat", seconds=30)
    fields = {
        "group_id": "billing",
        "generation_id": member.generation,
        "member_id": member.member_id,
        "group_instance_id": None,
    }
    assert member.ask("heartbeat", 3, **fields).throttle_time.total_seconds() == 30
    assert fault.met == 1
    member.send("heartbeat", 3, **fields)
    kafka.advance(29)
    assert not member.has_response()
    kafka.advance(2)
    assert member.receive("heartbeat", 3).throttle_time.total_seconds() == 0
    kafka.resume()


def test_an_evicted_member_is_gone_and_the_group_rebalances(
    kafka: EmbeddedKafka, member: WireMember
) -> None:
    group = kafka.group("billing")
    group.evict(member.member_id)
    assert group.wait(state="Empty", members=0).rebalances[-1].cause == "left"
    assert member.heartbeat() == "unknown_member_id"
    assert f"evicted {member.member_id} from group billing" in kafka.timeline
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        group.evict(member.member_id)


def test_a_moved_coordinator_is_found_again(kafka: EmbeddedKafka, member: WireMember) -> None:
    fault = kafka.group("billing").move_coordinator()
    other = WireMember(kafka.bootstrap, "b", group="shipping")
    other.ask("find_coordinator", 3, key="shipping", key_type=0)
    assert member.ask("find_coordinator", 3, key="billing", key_type=0).node_id >= 0
    assert member.heartbeat() == "not_coordinator"
    assert member.commit(1) == "not_coordinator"
    other.ask("find_coordinator", 3, key="shipping", key_type=0)
    assert member.heartbeat() == "not_coordinator"
    assert member.ask("find_coordinator", 3, key="billing", key_type=0).node_id >= 0
    assert member.heartbeat() == "none"
    assert member.commit(1) == "none"
    assert fault.met == 3
    assert "requests of group=billing fail with NOT_COORDINATOR" in kafka.timeline


def test_a_moved_coordinator_that_no_request_met_fails_the_test(kafka: EmbeddedKafka) -> None:
    kafka.group("billing").move_coordinator()
    with pytest.raises(AssertionError, match="group=billing fail with NOT_COORDINATOR"):
        kafka.verify_faults()
    kafka.clear_faults()


@pytest.mark.parametrize("api", verbs.COORDINATOR_APIS)
def test_each_api_of_a_coordinator_can_be_failed(api: str) -> None:
    assert find_api(api).name in REFUSABLE
    assert names_groups(find_api(api))


def test_a_login_can_be_refused() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="secret";'
        ),
    }
    with EmbeddedKafka(settings) as kafka:
        refused = kafka.fail("SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED")
        assert login(kafka) == "sasl_authentication_failed"
        assert refused.met == 1
        assert login(kafka) == "none"


def login(kafka: EmbeddedKafka) -> str:
    client = WireClient(kafka.bootstrap)
    assert not client.ask("sasl_handshake", 1, mechanism="PLAIN").error_code
    response = client.ask("sasl_authenticate", 2, auth_bytes=b"\0app\0secret")
    client.close()
    return str(response.error_code.name)
