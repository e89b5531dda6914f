"""The answers that are packed by hand are, byte for byte, those that kio writes."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from kohort.cluster import Leader
from kohort.errors import ErrorCode
from kohort.log.aborted_index import AbortedTransaction
from kohort.log.leader_epochs import EpochEndOffset
from kohort.protocol.batch_validation import RecordError
from kohort.protocol.building import response
from kohort.protocol.messages import encode
from kohort.server.cluster.leader_discovery import CurrentLeaders
from kohort.server.cluster.nodes import Node
from kohort.server.fetch import response as fetch
from kohort.server.fetch.reading import FetchPartitionData, PartitionRequest
from kohort.server.responses import produce
from kohort.server.responses.produce import PartitionProduceResponse

ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
RECORDS = b"records" * 40

PRODUCED = [
    PartitionProduceResponse(0, ErrorCode.none, 17, 1_700_000_000_000, 3),
    PartitionProduceResponse(1, ErrorCode.none, 2**40, -1, 0),
    PartitionProduceResponse(2, ErrorCode.unknown_topic_or_partition),
    PartitionProduceResponse(
        3,
        ErrorCode.invalid_record,
        log_start_offset=5,
        record_errors=[RecordError(0, "no key"), RecordError(200, "no key, too")],
        message="2 of 300 records are refused",
    ),
]


def produce_entity(
    version: int, topics: list[tuple[str, UUID | None, list[PartitionProduceResponse]]]
) -> bytes:
    return encode(
        response(
            0,
            version,
            responses=[
                {
                    "name" if version < 13 else "topic_id": name if version < 13 else topic_id,
                    "partition_responses": [
                        {
                            "index": each.partition,
                            "error_code": each.error,
                            "base_offset": each.base_offset,
                            "log_append_time": each.append_time,
                            "log_start_offset": each.log_start_offset,
                            "record_errors": [
                                {"batch_index": index, "batch_index_error_message": message}
                                for index, message in each.record_errors
                            ],
                            "error_message": each.message,
                        }
                        for each in partitions
                    ],
                }
                for name, topic_id, partitions in topics
            ],
        )
    )


@pytest.mark.parametrize("version", range(3, 14))
def test_packed_produce_responses_are_those_of_kio(version: int) -> None:
    topics = [("orders", ID, PRODUCED), ("payments", None, PRODUCED[:1]), ("none", ID, [])]
    packed = produce.pack(
        version,
        [(name if version < 13 else topic_id, partitions) for name, topic_id, partitions in topics],
    )
    assert packed == produce_entity(version, topics)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_to_nothing(version: int) -> None:
    assert produce.pack(version, []) == produce_entity(version, [])


def fetched(version: int, isolation_level: int) -> list[FetchPartitionData]:
    one, other = ("orders", "payments") if version < 13 else (ID, None)
    none: Sequence[AbortedTransaction] | None = None
    some: Sequence[AbortedTransaction] | None = None
    if isolation_level:
        none, some = (), [AbortedTransaction(2**40, 6, 8, 9), AbortedTransaction(3, 2**33, 9, 1)]

    def read(
        partition: int,
        high_watermark: int,
        start: int,
        records: bytes | memoryview,
        aborted: Sequence[AbortedTransaction] | None,
    ) -> FetchPartitionData:
        return FetchPartitionData(
            PartitionRequest(one, partition, 5, 100),
            ErrorCode.none,
            high_watermark,
            start,
            records,
            last_stable_offset=high_watermark - 1,
            aborted=aborted,
        )

    return [
        read(0, 17, 3, memoryview(RECORDS), some),
        read(1, 2**40, 0, b"", none),
        FetchPartitionData(PartitionRequest(one, 2, 5, 100), ErrorCode.offset_out_of_range),
        FetchPartitionData(
            PartitionRequest(other, 3, 5, 100), ErrorCode.unknown_topic_or_partition
        ),
        FetchPartitionData(PartitionRequest(other, 4, 5, 100), ErrorCode.unknown_topic_id),
        read(7, 1, 0, b"r" * 20_000, none),
    ]


def fetch_entity(version: int, isolation_level: int, session_id: int) -> bytes:
    topics: dict[object, list[FetchPartitionData]] = {}
    for each in fetched(version, isolation_level):
        topics.setdefault(each.request.topic, []).append(each)

    def partition(each: FetchPartitionData) -> dict[str, object]:
        unknown = each.error in (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
        listed = () if unknown else None
        if each.aborted is not None:
            listed = [
                {"producer_id": aborted.producer_id, "first_offset": aborted.first_offset}
                for aborted in each.aborted
            ]
        return {
            "partition_index": each.request.partition,
            "error_code": each.error,
            "high_watermark": each.high_watermark,
            "last_stable_offset": each.last_stable_offset,
            "log_start_offset": each.log_start_offset,
            "aborted_transactions": listed,
            "records": bytes(each.records),
        }

    responses = [
        {"topic" if version < 13 else "topic_id": topic, "partitions": map(partition, partitions)}
        for topic, partitions in topics.items()
    ]
    return encode(response(1, version, responses=responses, session_id=session_id))


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", range(4, 19))
def test_packed_fetch_responses_are_those_of_kio(version: int, isolation_level: int) -> None:
    packed = b"".join(fetch.pack(version, fetched(version, isolation_level), session_id=99))
    assert packed == fetch_entity(version, isolation_level, 99)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_of_nothing(version: int) -> None:
    assert b"".join(fetch.pack(version, [])) == encode(response(1, version))


@pytest.mark.parametrize("version", range(7, 19))
def test_fetch_with_a_wrong_session(version: int) -> None:
    error = ErrorCode.invalid_fetch_session_epoch
    assert fetch.pack_error(version, error) == encode(response(1, version, error_code=error))


LEADERS = CurrentLeaders(
    {("orders", 0): Leader(2, 7), (ID, 0): Leader(2, 7), (ID, 1): Leader(-1, 3)},
    [Node(2, "b.example.org", 9_093, None), Node(3, "c" * 200, 9_094, "r1")],
)
ENDPOINTS = [
    {"node_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
    for node in LEADERS.nodes
]
LEADER_FIELDS = [{"leader_id": 2, "leader_epoch": 7}, {"leader_id": -1, "leader_epoch": 3}, {}]


@pytest.mark.parametrize("version", range(10, 14))
def test_produce_to_partitions_that_have_moved(version: int) -> None:
    topic = "orders" if version < 13 else ID
    count = 1 if version < 13 else 3
    moved = [PartitionProduceResponse(at, ErrorCode.not_leader_or_follower) for at in range(count)]
    entity = response(
        0,
        version,
        responses=[
            {
                "name" if version < 13 else "topic_id": topic,
                "partition_responses": [
                    {
                        "index": each.partition,
                        "error_code": each.error,
                        "base_offset": -1,
                        "log_append_time": -1,
                        "log_start_offset": -1,
                        "error_message": None,
                        "current_leader": LEADER_FIELDS[each.partition],
                    }
                    for each in moved
                ],
            }
        ],
        node_endpoints=ENDPOINTS,
    )
    assert produce.pack(version, [(topic, moved)], LEADERS) == encode(entity)


@pytest.mark.parametrize("version", range(16, 19))
def test_fetch_of_partitions_that_have_moved(version: int) -> None:
    moved = [
        FetchPartitionData(PartitionRequest(ID, at, 5, 100), ErrorCode.not_leader_or_follower)
        for at in range(3)
    ]
    partitions = [
        {
            "partition_index": at,
            "error_code": ErrorCode.not_leader_or_follower,
            "high_watermark": -1,
            "last_stable_offset": -1,
            "log_start_offset": -1,
            "aborted_transactions": None,
            "records": b"",
            "current_leader": LEADER_FIELDS[at],
        }
        for at in range(3)
    ]
    entity = response(
        1,
        version,
        responses=[{"topic_id": ID, "partitions": partitions}],
        node_endpoints=ENDPOINTS,
    )
    assert b"".join(fetch.pack(version, moved, moved=LEADERS)) == encode(entity)


def test_fetch_beyond_the_end_of_an_epoch() -> None:
    request = PartitionRequest(ID, 0, 50, 100)
    diverging = FetchPartitionData(
        request, ErrorCode.none, 30, 3, diverging=EpochEndOffset(4, 20), last_stable_offset=30
    )
    partition = {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "high_watermark": 30,
        "last_stable_offset": 30,
        "log_start_offset": 3,
        "aborted_transactions": None,
        "records": b"",
        "diverging_epoch": {"epoch": 4, "end_offset": 20},
    }
    entity = response(1, 16, responses=[{"topic_id": ID, "partitions": [partition]}])
    assert b"".join(fetch.pack(16, [diverging], moved=LEADERS)[:-1]) == encode(entity)[:-1]
