"""Produce v3-13. What is refused, and how, was seen on Kafka 4.4."""

import asyncio
from pathlib import Path
from struct import pack_into
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.protocol.batches import TRANSACTIONAL, Codec, decode_records, iterate, read_header
from kohort.protocol.messages import encode, request
from kohort.security.acls import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.handlers.produce import FAST_PATHS, MAX_FAST_PATH_BYTES
from kohort.server.logging import AuditLog
from kohort.types import TopicPartition
from server.handlers.bench import (
    NO_ANSWER,
    START,
    FakeExchange,
    HandlerBench,
    HungUpError,
    batch_of,
)

ALL = range(3, 14)
DAY = 86_400_000


def data(
    bench: HandlerBench, version: int, batches: dict[int, bytes | None], topic: Any = "orders"
) -> dict[str, Any]:
    partitions = [{"index": index, "records": records} for index, records in batches.items()]
    if version < 13:
        return {"name": topic, "partition_data": partitions}
    found = bench.topics.get(topic) if isinstance(topic, str) else None
    return {"topic_id": found.id if found else topic, "partition_data": partitions}


async def produce(
    bench: HandlerBench,
    batches: dict[int, bytes | None] | bytes | None,
    *,
    version: int = 9,
    topic: Any = "orders",
    acks: int = -1,
    **fields: Any,
) -> Any:
    """The answer of the one partition, or of all of them if a dict was given."""
    asked = batches if isinstance(batches, dict) else {0: batches}
    request = {
        "acks": acks,
        "timeout_ms": 1_000,
        "topic_data": [data(bench, version, asked, topic)],
    }
    response = await bench.ask("produce", version, **request | fields)
    if response is NO_ANSWER:
        return response
    results = response.responses[0].partition_responses
    return results if isinstance(batches, dict) else results[0]


async def error(bench: HandlerBench, batch: bytes | None, **how: Any) -> ErrorCode:
    result = await produce(bench, batch, **how)
    assert result.base_offset == -1
    assert result.log_append_time is None
    return result.error_code  # type: ignore[no-any-return]


def end(bench: HandlerBench, partition: int = 0, topic: str = "orders") -> int:
    return bench.topics.log(topic, partition).end_offset  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("acks", [-1, 1])
async def test_produced_batches_are_appended_with_their_base_offsets(
    bench: HandlerBench, topic: str, version: int, acks: int
) -> None:
    bench.fill(topic, records=3)
    bench.topics.log(topic, 0).trim(2)  # type: ignore[union-attr]
    first, second = await produce(
        bench, {0: batch_of(b"a", b"b"), 2: batch_of(b"c")}, version=version, acks=acks
    )
    assert (first.index, first.error_code, first.base_offset) == (0, ErrorCode.none, 3)
    assert (second.index, second.error_code, second.base_offset) == (2, ErrorCode.none, 0)
    assert first.log_append_time is None
    if version >= 5:
        assert (first.log_start_offset, second.log_start_offset) == (2, 0)
    if version >= 8:
        assert (first.record_errors, first.error_message) == ((), None)
    assert (end(bench), end(bench, 2)) == (5, 1)
    stored = bench.topics.log(topic, 0).read(3, 1_000)  # type: ignore[union-attr]
    assert [(record.offset, record.value) for record in decode_records(stored)] == [
        (3, b"a"),
        (4, b"b"),
    ]


@pytest.mark.parametrize("version", ALL)
async def test_topics_are_answered_as_they_were_named(
    bench: HandlerBench, topic: str, version: int
) -> None:
    bench.controller.topics.create("other", 1)
    asked = [data(bench, version, {0: batch_of(b"a")}, name) for name in ("other", "orders")]
    answer = await bench.ask("produce", version, acks=1, topic_data=asked)
    if version < 13:
        assert [response.name for response in answer.responses] == ["other", "orders"]
    else:
        assert [response.topic_id for response in answer.responses] == [
            each["topic_id"] for each in asked
        ]


@pytest.mark.parametrize("version", ALL)
async def test_producing_to_an_unknown_partition_is_an_error_of_its_own(
    bench: HandlerBench, topic: str, version: int
) -> None:
    nowhere = "nope" if version < 13 else uuid4()
    unknown = ErrorCode.unknown_topic_or_partition if version < 13 else ErrorCode.unknown_topic_id
    result = await produce(bench, batch_of(b"a"), topic=nowhere, version=version)
    assert (result.error_code, result.base_offset) == (unknown, -1)
    results = await produce(
        bench, {3: batch_of(b"a"), -1: batch_of(b"a"), 0: batch_of(b"a")}, version=version
    )
    assert [each.error_code for each in results] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
    ]


async def test_the_zero_topic_id(bench: HandlerBench) -> None:
    assert (
        await error(bench, batch_of(b"a"), topic=UUID(int=0), version=13)
        is ErrorCode.unknown_topic_id
    )


async def test_a_produce_request_without_topics_has_an_empty_response(bench: HandlerBench) -> None:
    assert (await bench.ask("produce", 9, acks=-1, topic_data=())).responses == ()


@pytest.mark.parametrize("acks", [2, -2, 100])
@pytest.mark.parametrize("version", ALL)
async def test_acks_that_do_not_exist(
    bench: HandlerBench, topic: str, version: int, acks: int
) -> None:
    results = await produce(
        bench, {0: batch_of(b"a"), 7: batch_of(b"a")}, acks=acks, version=version
    )
    assert [result.error_code for result in results] == [ErrorCode.invalid_required_acks] * 2
    assert end(bench) == 0


def damaged(batch: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(batch)
    pack_into(form, changed, at, value)
    return bytes(changed)


GOOD = batch_of(b"a")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (b"x" * 10, ErrorCode.invalid_record),
        (b"x" * 100, ErrorCode.corrupt_message),
        (b"\0" * 61, ErrorCode.corrupt_message),
        (GOOD[:-1], ErrorCode.invalid_record),
        (GOOD + GOOD, ErrorCode.invalid_record),
        (damaged(GOOD, 17, ">I", 1), ErrorCode.corrupt_message),
        (damaged(GOOD, 16, "b", 1), ErrorCode.invalid_record),
        (damaged(GOOD, 16, "b", 3), ErrorCode.corrupt_message),
        (damaged(GOOD, 0, ">q", 5), ErrorCode.invalid_record),
        (batch_of(b"a" * 1_100_000), ErrorCode.message_too_large),
        (batch_of(b"a", attributes=0x20), ErrorCode.invalid_record),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else repr(value)[:20],
)
async def test_batches_that_are_none(
    bench: HandlerBench, topic: str, records: bytes | None, code: ErrorCode
) -> None:
    assert await error(bench, records) is code
    assert end(bench) == 0


@given(st.binary(max_size=200), st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
@settings(max_examples=examples(200))
def test_any_bytes_are_answered_and_the_log_stays_readable(
    noise: bytes, at: int, patch: bytes
) -> None:
    async def answers() -> None:
        bench = HandlerBench()
        bench.controller.topics.create("orders", 1)
        for records in (noise, GOOD[:at] + patch + GOOD[at + len(patch) :], GOOD + noise):
            result = await produce(bench, records)
            assert (result.error_code is ErrorCode.none) == (result.base_offset >= 0)
        log = bench.topics.log("orders", 0)
        assert log is not None
        stored = log.read(0, 10_000)
        offsets = [
            record.offset for at, _ in iterate(stored) for record in decode_records(stored, at)
        ]
        assert offsets == list(range(log.end_offset))

    asyncio.run(answers())


async def test_one_partition_that_is_refused_does_not_stop_the_others(
    bench: HandlerBench, topic: str
) -> None:
    results = await produce(bench, {0: GOOD, 1: b"", 2: GOOD})
    assert [result.error_code for result in results] == [
        ErrorCode.none,
        ErrorCode.invalid_record,
        ErrorCode.none,
    ]


@pytest.mark.parametrize("version", [7, 8, 9, 13])
async def test_refused_records_are_named(bench: HandlerBench, version: int) -> None:
    bench.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    assert (
        await produce(bench, batch_of(b"a", key=b"k"), topic="compacted", version=version)
    ).base_offset == 0
    result = await produce(bench, batch_of(b"a", b"b"), topic="compacted", version=version)
    assert (result.error_code, result.base_offset) == (ErrorCode.invalid_record, -1)
    if version >= 8:
        assert [each.batch_index for each in result.record_errors] == [0, 1]
        assert result.error_message
        assert result.log_start_offset == 0
    assert end(bench, topic="compacted") == 1


async def test_timestamps_out_of_range(bench: HandlerBench, topic: str) -> None:
    result = await produce(bench, batch_of(b"a", timestamp=START + DAY))
    assert result.error_code is ErrorCode.invalid_timestamp
    assert [each.batch_index for each in result.record_errors] == [0]
    assert (await produce(bench, batch_of(b"a", timestamp=0))).error_code is ErrorCode.none
    await bench.controller.topics.alter(
        topic, lambda _: {"message.timestamp.before.max.ms": "1000"}
    )
    assert await error(bench, batch_of(b"a", timestamp=START - DAY)) is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("version", ALL)
async def test_log_append_time(bench: HandlerBench, version: int) -> None:
    bench.controller.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    bench.clock.ms += 5
    result = await produce(bench, batch_of(b"a", timestamp=1), topic="stamped", version=version)
    assert result.log_append_time.timestamp() * 1000 == START + 5
    stored = bench.topics.log("stamped", 0).read(0, 1_000)  # type: ignore[union-attr]
    assert [record.timestamp for record in decode_records(stored)] == [START + 5]


async def test_zstd_since_v7(bench: HandlerBench, topic: str) -> None:
    batch = batch_of(b"a" * 1000, codec=Codec.ZSTD)
    assert await error(bench, batch, version=6) is ErrorCode.unsupported_compression_type
    assert (await produce(bench, batch, version=7)).error_code is ErrorCode.none


@pytest.mark.parametrize("codec", list(Codec))
async def test_codecs_pass_untouched_unless_the_topic_has_one(
    bench: HandlerBench, topic: str, codec: Codec
) -> None:
    batch = batch_of(b"a" * 1000, codec=codec)
    await produce(bench, batch)
    log = bench.topics.log(topic, 0)
    assert log is not None
    assert bytes(log.read(0, 10_000))[16:] == batch[16:]
    await bench.controller.topics.alter(topic, lambda _: {"compression.type": "gzip"})
    await produce(bench, batch)
    stored = log.read(1, 10_000)
    assert read_header(stored).codec == Codec.GZIP
    assert [record.value for record in decode_records(stored)] == [b"a" * 1000]


async def test_internal_topics_are_not_for_clients(bench: HandlerBench) -> None:
    bench.controller.topics.create("__consumer_offsets", 1, internal=True)
    assert await error(bench, GOOD, topic="__consumer_offsets") is ErrorCode.invalid_topic_exception
    assert end(bench, topic="__consumer_offsets") == 0


async def test_a_smaller_max_message_bytes_acts_at_once(bench: HandlerBench, topic: str) -> None:
    await bench.controller.topics.alter(topic, lambda _: {"max.message.bytes": "50"})
    assert await error(bench, GOOD) is ErrorCode.message_too_large


class TestIdempotence:
    def batch(self, sequence: int, *, epoch: int = 0, values: int = 2) -> bytes:
        return batch_of(
            *[b"v"] * values, producer_id=1, producer_epoch=epoch, base_sequence=sequence
        )

    async def test_a_batch_that_comes_again_is_answered_with_its_place(
        self, bench: HandlerBench, topic: str
    ) -> None:
        for sequence, offset in ((0, 0), (2, 2), (0, 0), (2, 2), (4, 4)):
            result = await produce(bench, self.batch(sequence))
            assert (result.error_code, result.base_offset) == (ErrorCode.none, offset)
        assert end(bench) == 6

    async def test_a_gap_in_the_sequence_is_out_of_order(
        self, bench: HandlerBench, topic: str
    ) -> None:
        await produce(bench, self.batch(0))
        assert await error(bench, self.batch(5)) is ErrorCode.out_of_order_sequence_number
        assert end(bench) == 2

    async def test_an_older_epoch(self, bench: HandlerBench, topic: str) -> None:
        await produce(bench, self.batch(0, epoch=3))
        assert await error(bench, self.batch(2, epoch=2)) is ErrorCode.invalid_producer_epoch

    async def test_partitions_count_by_themselves(self, bench: HandlerBench, topic: str) -> None:
        results = await produce(bench, {0: self.batch(0), 1: self.batch(0)})
        assert [result.base_offset for result in results] == [0, 0]


class TestTransactions:
    batch = batch_of(
        b"a", producer_id=5, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )

    async def test_a_transactional_batch_needs_a_transactional_id(
        self, bench: HandlerBench, topic: str
    ) -> None:
        assert await error(bench, self.batch) is ErrorCode.transactional_id_authorization_failed

    async def test_a_transactional_id_alone_does_no_harm(
        self, bench: HandlerBench, topic: str
    ) -> None:
        assert (await produce(bench, GOOD, transactional_id="tx")).error_code is ErrorCode.none


class TestWithoutAcks:
    async def test_a_produce_request_without_acks_has_no_response(
        self, bench: HandlerBench, topic: str
    ) -> None:
        assert await produce(bench, GOOD, acks=0) is NO_ANSWER
        assert end(bench) == 1

    @pytest.mark.parametrize(
        "how",
        [
            {"topic": "nope"},
            {"topic": uuid4(), "version": 13},
            {"batches": {9: GOOD}},
            {"batches": {0: b"x" * 100}},
            {"batches": {0: None}},
            {"batches": {0: GOOD, 1: batch_of(b"a" * 1_100_000)}},
        ],
    )
    async def test_an_error_closes_the_connection(
        self, bench: HandlerBench, topic: str, how: dict[str, Any]
    ) -> None:
        with pytest.raises(HungUpError):
            await produce(bench, **{"batches": {0: GOOD}, "acks": 0} | how)


class SlowLog:
    """A log that becomes durable when told so."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def durable(self) -> None:
        await self.written


class TestDurable:
    @pytest.fixture
    async def slow(self) -> Any:
        bench = HandlerBench(durability="fsync")
        topic = bench.controller.topics.create("orders", 2)
        topic.partitions = tuple(SlowLog(log) for log in topic.partitions)  # type: ignore[assignment,misc]
        return bench

    def begin(self, bench: HandlerBench, **fields: Any) -> Any:
        asked = data(bench, 9, {0: GOOD, 1: GOOD, 2: GOOD})
        return bench.begin("produce", 9, **{"acks": -1, "topic_data": [asked]} | fields)

    async def test_the_answer_waits_for_all_that_was_appended(self, slow: HandlerBench) -> None:
        exchange, task = self.begin(slow)
        for log in slow.topics.get("orders").partitions:  # type: ignore[union-attr]
            await asyncio.sleep(0)
            assert exchange.packed is None
            log.written.set_result(None)  # type: ignore[attr-defined]
        await task
        codes = [
            partition.error_code for partition in exchange.outcome.responses[0].partition_responses
        ]
        assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.unknown_topic_or_partition]

    async def test_a_batch_whose_sync_failed_is_refused_though_the_disk_works_again(
        self, slow: HandlerBench
    ) -> None:
        exchange, task = self.begin(slow)
        first, second = slow.topics.get("orders").partitions  # type: ignore[union-attr]
        second.sync_failed(OSError(5, "Input/output error"))
        for log in (first, second):
            log.written.set_result(None)  # type: ignore[attr-defined]
        await task
        results = exchange.outcome.responses[0].partition_responses
        assert [result.error_code for result in results[:2]] == [
            ErrorCode.none,
            ErrorCode.kafka_storage_error,
        ]

    async def test_a_batch_that_did_not_reach_the_disk_is_not_acknowledged(
        self, slow: HandlerBench
    ) -> None:
        exchange, task = self.begin(slow)
        first, second = slow.topics.get("orders").partitions  # type: ignore[union-attr]
        first.written.set_result(None)  # type: ignore[attr-defined]
        second.written.set_exception(OSError(5, "Input/output error"))  # type: ignore[attr-defined]
        await task
        results = exchange.outcome.responses[0].partition_responses
        assert [result.error_code for result in results[:2]] == [
            ErrorCode.none,
            ErrorCode.kafka_storage_error,
        ]
        assert results[1].base_offset == -1

    async def test_without_acks_nobody_waits(self, slow: HandlerBench) -> None:
        asked = data(slow, 9, {0: GOOD})
        assert await slow.ask("produce", 9, acks=0, topic_data=[asked]) is NO_ANSWER


async def test_a_storage_that_fails(bench: HandlerBench, topic: str) -> None:
    bench.directory.fail("append", TopicPartition(topic, 0))
    result = await produce(bench, GOOD)
    assert (result.error_code, result.error_message) == (
        ErrorCode.kafka_storage_error,
        "No space left on device",
    )


@pytest.mark.parametrize("ahead_ms", [-3_650 * DAY, -DAY // 12, DAY // 12, 30 * DAY])
@pytest.mark.usefixtures("topic")
async def test_records_of_now_are_taken_after_the_wall_clock_was_set(
    bench: HandlerBench, ahead_ms: int
) -> None:
    bench.clock.ahead_ms = ahead_ms
    result = await produce(bench, batch_of(b"a", timestamp=bench.clock.timestamp()))
    assert result.error_code == ErrorCode.none


def damaged_records() -> bytes:
    """A batch whose CRC is not right."""
    whole = batch_of(b"a")
    return whole[:-1] + bytes((whole[-1] ^ 1,))


class TestFromBytes:
    """The fast path does what `handle` does, or nothing."""

    @staticmethod
    def secured(audit_log: Path) -> HandlerBench:
        bench = HandlerBench(
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        allow, everybody = AclPermissionType.ALLOW, "User:*"
        for topic in ("orders", "denied", "__consumer_offsets"):
            bench.controller.topics.create(topic, 3)
            entry = AclBinding(
                ResourceType.TOPIC, topic, PatternType.LITERAL, everybody, "*",
                AclOperation.WRITE, allow,
            )  # fmt: skip
            if topic != "denied":
                bench.controller.writer.commit(*bench.controller.acls.create_acls([entry]))
        bench.audit = AuditLog(str(audit_log), now=lambda: 1.0, allowed_too=True)
        return bench

    @pytest.mark.parametrize("version", FAST_PATHS)
    @pytest.mark.parametrize(
        ("batch", "fields", "taken"),
        [
            pytest.param(batch_of(b"a", b"b"), {}, True, id="usual"),
            pytest.param(batch_of(b"a", b"b", codec=Codec.ZSTD), {}, True, id="compressed"),
            pytest.param(batch_of(b"a"), {"acks": 1}, True, id="acks 1"),
            pytest.param(batch_of(b"a"), {"acks": 0}, True, id="acks 0"),
            pytest.param(batch_of(b"a"), {"topic": "denied"}, True, id="denied"),
            pytest.param(batch_of(b"a"), {"topic": "__consumer_offsets"}, True, id="internal"),
            pytest.param(batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=9), {}, True,
                         id="idempotent"),
            pytest.param(batch_of(b"a", attributes=TRANSACTIONAL), {}, True, id="transactional"),
            pytest.param(batch_of(b"a"), {"acks": 2}, False, id="acks 2"),
            pytest.param(batch_of(b"a"), {"index": 3}, False, id="no partition"),
            pytest.param(batch_of(b"a"), {"index": -1}, False, id="negative partition"),
            pytest.param(batch_of(b"a"), {"topic": "none"}, False, id="no topic"),
            pytest.param(damaged_records(), {}, False, id="damaged"),
            pytest.param(damaged_records(), {"topic": "denied"}, False, id="damaged and denied"),
            pytest.param(b"", {}, False, id="empty"),
            pytest.param(batch_of(bytes(MAX_FAST_PATH_BYTES)), {}, False, id="large"),
        ],
    )  # fmt: skip
    async def test_the_fast_path_does_the_same_as_the_decoder_or_nothing(
        self, tmp_path: Path, version: int, batch: bytes, fields: dict[str, Any], taken: bool
    ) -> None:
        """`taken`: whether it takes the request."""
        told = []
        for is_fast in (True, False):
            audit = tmp_path / str(is_fast)
            bench = self.secured(audit)
            topic = bench.topics.get(fields.get("topic", "orders"))
            key: dict[str, Any] = {"name": fields.get("topic", "orders")}
            if version >= 13:
                key = {"topic_id": topic.id if topic else UUID(int=1)}
            partition = {"index": fields.get("index", 0), "records": batch}
            asked = {
                "acks": fields.get("acks", -1),
                "topic_data": [{**key, "partition_data": [partition]}],
            }
            if is_fast:
                api_key = BY_NAME["produce"].key
                exchange = FakeExchange(api_key, version, asked_by=bench.peer)
                content = encode(request(api_key, version, **asked))
                assert FAST_PATHS[version](bench.services, exchange, content, 0) is taken
            else:
                exchange, task = bench.begin("produce", version, **asked)
                if task is not None:
                    await task
            assert bench.audit is not None
            bench.audit.close()
            ends = [end(bench, index, name) for name in ("orders", "denied") for index in range(3)]
            outcome_text = repr(exchange.outcome)
            if topic is not None:
                outcome_text = outcome_text.replace(repr(topic.id), "the topic's id")
            told.append((outcome_text, ends, audit.read_text()))
        if taken:
            assert told[0] == told[1]
        else:
            assert told[0] == ("None", [0] * 6, "")
