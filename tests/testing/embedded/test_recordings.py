"""Recordings of an embedded Kafka, replayed on another one."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from kohort.client.sync import ConsumerGroup, Producer
from kohort.recording import (
    Event,
    RecordedRequest,
    RecordingError,
    RecordingReader,
    RecordingWriter,
    ReplayResult,
)
from kohort.testing import EmbeddedKafka
from testing.embedded.wire_member import WireMember, make_stable


def new_kafka(**settings: object) -> EmbeddedKafka:
    return EmbeddedKafka({name.replace("_", "."): value for name, value in settings.items()})


def replayed(path: Path, **settings: object) -> ReplayResult:
    with new_kafka(**settings) as kafka:
        kafka.topic("orders", partitions=4)
        return kafka.replay(path)


def consume(kafka: EmbeddedKafka) -> None:
    with ConsumerGroup("billing", topics=["orders"], bootstrap=kafka.bootstrap) as group:
        next(iter(group))
        group.commit()


def produce(kafka: EmbeddedKafka) -> None:
    with Producer(bootstrap=kafka.bootstrap, enable_idempotence=True) as producer:
        producer.send("orders", b"paid", key=b"Ann").result(timeout_s=60)


def test_a_replay_on_a_server_in_the_same_state_has_no_differences(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    path = tmp_path / "recording.jsonl"
    with kafka.record(path):
        produce(kafka)
        consume(kafka)
    result = replayed(path)
    assert result.differences == []
    assert result.responses > 15
    assert not result.left_out
    assert str(result).endswith("0 differences")


def test_a_replay_has_the_effects_of_the_recording(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
        consume(kafka)
        recorded = kafka.group("billing").committed
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        other.replay(tmp_path / "recording.jsonl")
        assert other.group("billing").committed == recorded
        assert [(each.key, each.value) for each in other.records("orders")] == [(b"Ann", b"paid")]


def test_another_answer_is_a_difference_with_its_place(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        consume_nothing(kafka)
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        other.fail("SyncGroup", error="NOT_COORDINATOR")
        result = other.replay(tmp_path / "recording.jsonl")
    first = result.differences[0]
    assert (first.api, first.field) == ("SyncGroup v5", "error_code")
    assert (first.recorded, first.replayed) == ("NONE", "NOT_COORDINATOR")
    line = (tmp_path / "recording.jsonl").read_text().splitlines()[first.line - 1]
    assert '"event":"response"' in line


def consume_nothing(kafka: EmbeddedKafka) -> None:
    kafka.produce("orders", b"paid")
    with ConsumerGroup("billing", topics=["orders"], bootstrap=kafka.bootstrap) as group:
        next(iter(group))


def test_a_transaction_is_replayed_with_another_producer_id(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    recording = kafka.record(tmp_path / "recording.jsonl")
    producer = Producer(bootstrap=kafka.bootstrap, transactional_id="payments")
    with producer, producer.transaction():
        producer.send("orders", b"paid", partition=3)
    recording.stop()
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        produce(other)  # takes the producer id that the recording had
        assert other.replay(tmp_path / "recording.jsonl").differences == []
        assert other.records("orders")[-1].partition == 3


def test_a_session_expires_in_a_replay_as_it_did(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        first, second = WireMember(kafka.bootstrap), WireMember(kafka.bootstrap)
        make_stable(first, second)
        kafka.kill(member_id=first.member_id)
        kafka.advance(60)
        assert second.heartbeat() == "rebalance_in_progress"
        second.send_join()
        second.joined()
        assert second.sync({second.member_id: 0}) == "none"
        second.close()
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        assert other.replay(tmp_path / "recording.jsonl").differences == []
        rebalances = other.group("billing").rebalances
        assert [each.cause for each in rebalances] == [
            each.cause for each in kafka.group("billing").rebalances
        ]
        assert rebalances[-1].cause == "session expired"


def test_members_that_sent_no_heartbeat_expire_in_a_replay(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    member = WireMember(kafka.bootstrap, session_timeout_ms=200)
    with kafka.record(tmp_path / "recording.jsonl"):
        make_stable(member)
        kafka.group("billing").wait(state="Empty", timeout=60)
        assert member.heartbeat() == "unknown_member_id"
    member.close()
    assert replayed(tmp_path / "recording.jsonl").differences == []


def test_the_order_of_all_connections_is_recorded(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
        consume(kafka)
    with RecordingReader(tmp_path / "recording.jsonl") as reader:
        events = list(reader)
    assert [event.at for event in events] == sorted(event.at for event in events)
    apis = [event.api_key for event in events if isinstance(event, RecordedRequest)]
    assert apis.index(0) < apis.index(11) < apis.index(14) < apis.index(8)


def test_a_recording_begins_in_the_middle_of_connections(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with Producer(bootstrap=kafka.bootstrap, enable_idempotence=False) as producer:
        producer.send("orders", b"before", partition=0).result(timeout_s=60)
        with kafka.record(tmp_path / "recording.jsonl") as recording:
            producer.send("orders", b"recorded", partition=1).result(timeout_s=60)
            recording.stop()
            producer.send("orders", b"after", partition=2).result(timeout_s=60)
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        assert other.replay(tmp_path / "recording.jsonl").differences == []
        assert [record.value for record in other.records("orders")] == [b"recorded"]


def test_values_are_redacted_on_request(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl", redact_values=True):
        produce(kafka)
        consume(kafka)
    content = (tmp_path / "recording.jsonl").read_bytes()
    assert not any(b64encode(b"\0" * shift + b"paid")[4:8] in content for shift in range(3))
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        assert other.replay(tmp_path / "recording.jsonl").differences == []
        (record,) = other.records("orders")
        assert (len(record.key or b""), len(record.value or b"")) == (3, 4)
        assert record.value != b"paid"


def test_a_connection_that_the_server_closes_is_a_difference(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        other.drop("InitProducerId")
        result = other.replay(tmp_path / "recording.jsonl")
    assert result.differences[0].api == "InitProducerId v5"
    assert result.differences[0].recorded == "a response"


def test_a_dropped_request_is_replayed_without_a_difference(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    kafka.drop("InitProducerId")
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
    assert replayed(tmp_path / "recording.jsonl").differences == []


def test_a_cut_recording_is_replayed_up_to_its_end(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
    content = (tmp_path / "recording.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(content[: len(content) // 2])
    result = replayed(tmp_path / "cut.jsonl")
    assert (result.differences, result.is_truncated) == ([], True)
    assert "ends within an event" in str(result)


def test_a_damaged_recording_is_refused_at_its_line(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        produce(kafka)
    lines = (tmp_path / "recording.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"connection":', b'"connectiom":')
    (tmp_path / "damaged.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(RecordingError, match="line 5 is damaged, its checksum is wrong"):
        replayed(tmp_path / "damaged.jsonl")


def test_time_goes_on_after_a_replay(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        consume_nothing(kafka)
    with new_kafka() as other:
        other.topic("orders", partitions=4)
        other.replay(tmp_path / "recording.jsonl")
        consume_nothing(other)  # a group cannot join while time stands still


def test_a_recording_needs_a_file_of_its_own(embedded: EmbeddedKafka, tmp_path: Path) -> None:
    embedded.record(tmp_path / "recording.jsonl").stop()
    with pytest.raises(RecordingError, match="exists: delete it"):
        embedded.record(tmp_path / "recording.jsonl")
    with pytest.raises(RecordingError, match="cannot be written: No such file or directory"):
        embedded.record(tmp_path / "absent" / "recording.jsonl")


def test_a_full_disk_ends_the_recording_and_not_the_server(
    embedded: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = embedded.record(tmp_path / "recording.jsonl")

    def fail(writer: RecordingWriter, _: Event) -> None:
        raise RecordingError(f"{writer.path} cannot be written: No space left on device")

    monkeypatch.setattr(RecordingWriter, "add", fail)
    produce(embedded)
    consume(embedded)
    with pytest.raises(RecordingError, match="No space left on device"):
        recording.stop()


def test_several_recordings_are_written_at_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "all.jsonl"):
        produce(kafka)
        with kafka.record(tmp_path / "second.jsonl"):
            produce(kafka)
    sizes = [(tmp_path / name).stat().st_size for name in ("all.jsonl", "second.jsonl")]
    assert sizes[0] > sizes[1] > 1_000


async def test_a_sync_kafka_replays_on_a_thread_with_an_event_loop(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with kafka.record(tmp_path / "recording.jsonl"):
        await asyncio.to_thread(produce, kafka)
    assert replayed(tmp_path / "recording.jsonl").differences == []
