"""Array elements of a response: as many as its bytes account for."""

import tracemalloc
from uuid import UUID

import pytest

from kohort.protocol import lenient_decoding
from kohort.protocol.apis import BY_NAME
from kohort.protocol.framing import MalformedError
from kohort.protocol.lenient_decoding import BYTES_PER_ELEMENT, MAX_ELEMENTS
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import encode, response
from kohort.protocol.packing import pack_array, pack_compact_array
from kohort.protocol.reading import response_reader

CONFIG = {"name": "min.insync.replicas", "value": "1", "read_only": False, "config_source": 5}


def read(api: str, version: int, data: bytes) -> object:
    return response_reader(load_response_schema(BY_NAME[api].key, version))(data, 0)


@pytest.fixture
def only_bytes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a response have what its bytes account for and no more. One that is read then is read
    with any number of such elements, as its bytes grow with them.
    """
    monkeypatch.setattr(lenient_decoding, "MAX_ELEMENTS", 0)


@pytest.mark.usefixtures("only_bytes_count")
def test_any_number_of_new_topics_with_all_their_configs_is_read() -> None:
    topic = {"name": "t", "topic_id": UUID(int=1), "error_code": 0, "configs": [CONFIG] * 30}
    created = response(BY_NAME["create_topics"].key, 7, topics=[topic] * 100)
    assert read("create_topics", 7, encode(created)) == created


@pytest.mark.usefixtures("only_bytes_count")
@pytest.mark.parametrize("replicas", [3, 10])
def test_the_metadata_of_any_number_of_partitions_is_read(replicas: int) -> None:
    nodes = [*range(replicas)]
    partition = {"error_code": 0, "partition_index": 1, "leader_id": 1, "leader_epoch": 1}
    partition |= {"replica_nodes": nodes, "isr_nodes": nodes, "offline_replicas": []}
    topic = {"error_code": 0, "name": "t", "partitions": [partition] * 1_000}
    metadata = response(BY_NAME["metadata"].key, 9, topics=[topic])
    assert read("metadata", 9, encode(metadata)) == metadata


def of_empty_texts(count: int) -> bytes:
    """A ListGroups v0 response with so many groups without an id, of four bytes each."""
    return bytes(2) + pack_array(count) + bytes(4 * count)


def of_short_elements(count: int) -> bytes:
    """A ListGroups v3 response with so many groups, of three bytes each."""
    return bytes(6) + pack_compact_array(count) + b"\1\1\0" * count + bytes(1)


def test_more_elements_than_the_bytes_account_for_are_refused() -> None:
    assert read("list_groups", 3, of_short_elements(MAX_ELEMENTS))
    with pytest.raises(MalformedError, match=f"array of {2 * MAX_ELEMENTS} elements"):
        read("list_groups", 3, of_short_elements(2 * MAX_ELEMENTS))


def test_memory_of_the_shortest_elements_is_bounded_by_the_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lenient_decoding, "MAX_ELEMENTS", 10_000)
    read("list_groups", 0, of_empty_texts(1))  # what is made once is none of the elements
    data = of_empty_texts(40_000)
    assert len(data) // BYTES_PER_ELEMENT >= 40_000
    tracemalloc.start()
    try:
        groups = read("list_groups", 0, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(groups.groups) == 40_000  # type: ignore[attr-defined]
    assert peak <= 40 * len(data)
