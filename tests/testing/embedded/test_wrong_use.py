"""Wrong use of an embedded Kafka: each mistake raises at its call, and the server goes on."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.errors import KafkaError, KohortError
from kohort.testing import AsyncEmbeddedKafka, EmbeddedKafka
from kohort.testing.embedded import verbs
from testing.embedded.wire_member import WireClient


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        yield kafka


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda kafka: kafka.start(), "already started"),
    (lambda kafka: kafka.topic("clicks", "3"), "partitions: expected a whole number"),
    (lambda kafka: kafka.topic("clicks", True), "partitions: expected a whole number"),
    (lambda kafka: kafka.topic("clicks", 0), "partitions: expected at least 1"),
    (lambda kafka: kafka.topic(b"clicks"), "name: expected a string"),
    (lambda kafka: kafka.topic("clicks", configs={"retention.ms": 1}), "retention.ms: expected a"),
    (lambda kafka: kafka.topic("clicks", configs=["retention.ms"]), "configs: expected a mapping"),
    (lambda kafka: kafka.produce("orders"), "at least one value"),
    (lambda kafka: kafka.produce("orders", "paid"), "encode the string, not 'paid'"),
    (lambda kafka: kafka.produce("orders", b"paid", key="k"), "key: expected bytes"),
    (lambda kafka: kafka.produce("orders", b"paid", partition="0"), "partition: expected a whole"),
    (
        lambda kafka: kafka.produce("orders", b"paid", headers={"h": b"1"}),
        "headers: expected pairs",
    ),
    (lambda kafka: kafka.produce("orders", b"paid", headers=[("h", "1")]), "header h: expected"),
    (lambda kafka: kafka.advance(-1), "seconds: expected from 0"),
    (lambda kafka: kafka.advance("1"), "seconds: expected a number"),
    (lambda kafka: kafka.advance(math.nan), "seconds: expected a number"),
    (lambda kafka: kafka.advance(math.inf), "seconds: expected from 0"),
    (lambda kafka: kafka.advance_until(True), "predicate: expected a function"),
    (lambda kafka: kafka.advance_until(lambda: 0, at_most_seconds=-1), "at_most_seconds: expected"),
    (lambda kafka: kafka.kill(""), "client_id: expected a string"),
    (lambda kafka: kafka.drop(8), "API: expected a string"),
    (lambda kafka: kafka.drop("OffsetComit"), "did you mean OffsetCommit"),
    (lambda kafka: kafka.fail("OffsetCommit", error=16), "error: expected a string"),
    (lambda kafka: kafka.drop("OffsetCommit", times=0), "times: expected at least 1"),
    (lambda kafka: kafka.drop("OffsetCommit", times="2"), "times: expected a whole number"),
    (lambda kafka: kafka.drop("OffsetCommit", when="2"), "when: expected a function"),
    (lambda kafka: kafka.drop("OffsetCommit", group=3), "group: expected a string"),
    (lambda kafka: kafka.drop("Metadata", group="billing"), "no Metadata names a group"),
    (lambda kafka: kafka.delay("OffsetCommit", seconds=-1), "seconds: expected from 0"),
    (lambda kafka: kafka.group(None), "group: expected a string"),
    (lambda kafka: kafka.group("billing").wait(), "wait for something"),
    (lambda kafka: kafka.group("billing").wait(state="stable"), "did you mean Stable"),
    (lambda kafka: kafka.group("billing").wait(members=-1), "members: expected at least 0"),
    (lambda kafka: kafka.group("billing").wait(members=1, timeout=-1), "timeout: expected from 0"),
    (lambda kafka: kafka.group("billing").commit({}), "offsets: expected a mapping"),
    (lambda kafka: kafka.group("billing").commit({"orders": 5}), "a partition: expected a pair"),
    (lambda kafka: kafka.group("billing").commit({("orders", "0"): 5}), "partition: expected a"),
    (lambda kafka: kafka.group("billing").commit({("orders", 0): "5"}), "offset of orders-0"),
    (lambda kafka: kafka.group("billing").commit({("orders", 0): -5}), "offset of orders-0"),
    (lambda kafka: kafka.group("billing").commit({("orders", 0): 2**63}), "offset of orders-0"),
]


@pytest.mark.parametrize(("mistake", "text"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_argument_is_named_at_the_call(
    kafka: EmbeddedKafka, mistake: Callable[[Any], object], text: str
) -> None:
    with pytest.raises(KohortError, match=text):
        mistake(kafka)
    kafka.group("billing").commit({("orders", 0): 1})
    kafka.advance(1)
    assert kafka.group("billing").committed == {("orders", 0): 1}


def test_settings_have_names_that_are_strings() -> None:
    for settings in (5, {3: "x"}):
        with pytest.raises(KohortError, match="settings"):
            EmbeddedKafka(settings)  # type: ignore[arg-type]


def test_unknown_partitions_and_internal_topics_are_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(KafkaError, match="the partitions 0 to 3, not 4"):
        kafka.group("billing").commit({("orders", 4): 1})
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        kafka.produce("__consumer_offsets", b"x")


def test_a_closed_kafka_and_its_groups_have_names(kafka: EmbeddedKafka) -> None:
    group = kafka.group("billing")
    assert repr(group) == "<Group billing Dead>"
    kafka.close()
    kafka.verify_faults()
    assert repr(kafka) == "<EmbeddedKafka closed>"
    assert repr(group) == "<Group billing of a closed Kafka>"


def test_a_predicate_that_raises_fails_the_test_and_the_request_is_served(
    kafka: EmbeddedKafka,
) -> None:
    kafka.drop("Metadata", when=lambda request: request.no_such_field, required=False)
    assert WireClient(kafka.bootstrap).ask("metadata", 9).brokers
    with pytest.raises(AssertionError, match="no_such_field"):
        kafka.verify_faults()
    kafka.clear_faults()


def test_a_predicate_that_uses_the_server_is_told_not_to(kafka: EmbeddedKafka) -> None:
    kafka.drop("Metadata", when=lambda _: bool(kafka.records("orders")), required=False)
    assert WireClient(kafka.bootstrap).ask("metadata", 9).brokers
    with pytest.raises(AssertionError, match="may not use it"):
        kafka.verify_faults()
    kafka.clear_faults()


def test_a_group_is_found_in_each_api_that_names_one(kafka: EmbeddedKafka) -> None:
    client = WireClient(kafka.bootstrap)
    requests: list[tuple[str, str, int, dict[str, Any]]] = [
        ("FindCoordinator", "find_coordinator", 3, {"key": "billing", "key_type": 0}),
        ("FindCoordinator", "find_coordinator", 4, {"coordinator_keys": ["billing"]}),
        ("DescribeGroups", "describe_groups", 5, {"groups": ["billing"]}),
        ("DeleteGroups", "delete_groups", 2, {"groups_names": ["billing"]}),
        ("ConsumerGroupDescribe", "consumer_group_describe", 0, {"group_ids": ["billing"]}),
    ]
    for api, name, version, fields in requests:
        fault = kafka.delay(api, seconds=0, group="billing")
        other = kafka.delay(api, seconds=0, group="shipping", required=False)
        client.ask(name, version, **fields)
        assert (fault.met, other.met) == (1, 0)


def test_calls_of_several_threads_are_all_done(kafka: EmbeddedKafka) -> None:
    errors: list[Exception] = []

    def use() -> None:
        try:
            for _ in range(20):
                kafka.produce("orders", b"x")
                kafka.advance(0.5)
        except Exception as error:  # any error fails the test
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(kafka.records("orders")) == 60


def wait_for_advance(kafka: EmbeddedKafka) -> None:
    while "advance" not in kafka.timeline:
        time.sleep(0.001)


def test_a_close_during_an_advance_ends_it(kafka: EmbeddedKafka) -> None:
    errors: list[KohortError] = []

    def advance() -> None:
        try:
            while True:
                kafka.advance(86_400)
        except KohortError as error:
            errors.append(error)

    thread = threading.Thread(target=advance)
    thread.start()
    wait_for_advance(kafka)
    kafka.close()
    thread.join()
    assert "closed" in str(errors[0])


def test_restarts_at_once_happen_one_after_the_other(tmp_path: Path) -> None:
    with EmbeddedKafka(directory=tmp_path) as kafka:
        kafka.topic("orders")
        kafka.freeze()
        threads = [threading.Thread(target=kafka.restart) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(50):
            assert kafka.produce("orders", b"x") == number
        for thread in threads:
            thread.join()
        assert len(kafka.records("orders")) == 50
        assert kafka._server.call(verbs.is_frozen)
        assert kafka.timeline.count("restarted") == 3


def test_a_delayed_request_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with EmbeddedKafka(directory=tmp_path) as kafka:
        kafka.topic("orders")
        fault = kafka.delay("Metadata", seconds=3_600)
        client = WireClient(kafka.bootstrap)
        client.send("metadata", 9)
        while not fault.met:
            time.sleep(0.001)
        before = kafka._server.call(verbs.time)
        kafka.restart()
        assert kafka._server.call(verbs.time) - before < 2  # requests in progress have 3 s
        with pytest.raises(ConnectionError):
            client.receive("metadata", 9)


def test_waits_need_a_loop_of_asyncio(kafka: EmbeddedKafka) -> None:
    work = AsyncEmbeddedKafka.of(kafka).advance(1)
    with pytest.raises(KohortError, match="event loop of asyncio"):
        work.send(None)
