"""Topics and records of an embedded Kafka, its life, and several of them at once."""

from pathlib import Path

import pytest

from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.testing import AsyncEmbeddedKafka, EmbeddedKafka
from kohort.testing.embedded.topic_records import TopicRecord
from testing.embedded.wire_member import WireClient, WireMember, make_stable


def values(records: list[TopicRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_are_decoded_in_the_order_of_partitions_and_offsets(kafka: EmbeddedKafka) -> None:
    kafka.produce("orders", b"c", partition=1, key=b"k", headers=[("h", b"1")])
    assert kafka.produce("orders", b"a", b"b") == 0
    assert kafka.produce("orders", b"d") == 2
    records = kafka.records("orders")
    assert values(records) == [b"a", b"b", b"d", b"c"]
    last = records[-1]
    assert (last.partition, last.offset, last.key, last.headers) == (1, 0, b"k", (("h", b"1"),))


def test_unknown_topics_and_partitions_are_named(kafka: EmbeddedKafka) -> None:
    with pytest.raises(KafkaError, match="no topic 'payments'"):
        kafka.records("payments")
    with pytest.raises(KafkaError, match="the partitions 0 to 3, not 4"):
        kafka.produce("orders", b"a", partition=4)
    with pytest.raises(KafkaError) as refused:
        kafka.topic("orders")
    assert refused.value.code is ErrorCode.topic_already_exists


def test_names_are_fresh_each_time(kafka: EmbeddedKafka) -> None:
    assert kafka.name("orders") != kafka.name("orders")


def test_old_records_are_deleted_when_time_passes(kafka: EmbeddedKafka) -> None:
    kafka.topic("clicks", configs={"retention.ms": "60000", "segment.ms": "1000"})
    kafka.produce("clicks", b"old")
    kafka.advance(40)
    kafka.produce("clicks", b"new")
    kafka.advance_until(lambda: values(kafka.records("clicks")) == [b"new"], at_most_seconds=600)


def test_several_servers_share_nothing(kafka: EmbeddedKafka) -> None:
    with EmbeddedKafka() as other:
        assert other.bootstrap != kafka.bootstrap
        other.topic("orders")
        kafka.produce("orders", b"a")
        assert other.records("orders") == []


def test_a_restart_keeps_groups_and_records_on_disk(tmp_path: Path) -> None:
    with EmbeddedKafka(directory=tmp_path) as kafka:
        kafka.topic("orders")
        kafka.produce("orders", b"a")
        member = WireMember(kafka.bootstrap)
        make_stable(member)
        bootstrap = kafka.bootstrap
        kafka.restart()
        assert kafka.bootstrap == bootstrap
        assert values(kafka.records("orders")) == [b"a"]
        assert [each.member_id for each in kafka.group("billing").members] == [member.member_id]


def test_records_in_memory_do_not_survive_a_restart(kafka: EmbeddedKafka) -> None:
    with pytest.raises(KohortError, match="directory="):
        kafka.restart()
    assert WireClient(kafka.bootstrap).ask("metadata", 9).brokers


def test_a_closed_kafka_says_so() -> None:
    kafka = EmbeddedKafka()
    with pytest.raises(KohortError, match="not started"):
        kafka.topic("orders")
    with kafka:
        kafka.topic("orders")
    with pytest.raises(KohortError, match="is closed"):
        kafka.topic("payments")
    kafka.close()


def test_a_wrong_setting_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"group\.max\.size"):
        EmbeddedKafka({"group.max.sizes": 2}).start()


async def test_waits_are_coroutines_for_tests_on_an_event_loop(tmp_path: Path) -> None:
    async with AsyncEmbeddedKafka(directory=tmp_path) as kafka:
        kafka.topic("orders")
        kafka.group("billing").commit({("orders", 0): 1})
        group = await kafka.group("billing").wait(state="Empty", committed={("orders", 0): 1})
        assert group.members == ()
        await kafka.restart()
        await kafka.advance(10)
        await kafka.advance_until(lambda: True)
        with pytest.raises(AssertionError, match="members=1"):
            await kafka.group("billing").wait(members=1, timeout=0)
