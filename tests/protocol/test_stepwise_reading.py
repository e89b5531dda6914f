"""The reader of large messages: the same values as kio's native reader, and other threads run."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.protocol.apis import BY_NAME
from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import decode_large_request, decode_request, encode, request
from protocol.wire_entities import VERSIONS, name_of, requests


@pytest.mark.parametrize("case", VERSIONS, ids=name_of)
@settings(max_examples=examples(4), derandomize=True, database=None)
@given(st.data())
def test_every_request_is_read_as_in_one_step(case: tuple[int, int], data: st.DataObject) -> None:
    encoded = encode(data.draw(requests(*case)))
    at = data.draw(st.integers(0, 3))
    framed = bytes(at) + encoded + b"behind"
    try:
        expected = decode_request(*case, framed, at)
    except MalformedError:
        with pytest.raises(MalformedError):
            decode_large_request(*case, framed, at)
    else:
        assert decode_large_request(*case, framed, at) == expected


@pytest.mark.parametrize("version", [8, 9])
def test_records_are_not_copied(version: int) -> None:
    produce, records = BY_NAME["produce"].key, bytes(1 << 20)
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    encoded = encode(request(produce, version, topic_data=topics))
    decoded = decode_large_request(produce, version, encoded, 0)
    found = decoded.topic_data[0].partition_data[0].records
    assert found == records
    assert found.obj is encoded


def test_long_bytes_are_not_copied() -> None:
    sync, longest = BY_NAME["sync_group"].key, bytes(1 << 20)
    assignments = [{"member_id": "m", "assignment": longest + more} for more in (b"", b"x")]
    encoded = encode(request(sync, 5, assignments=assignments))
    short, long = (
        each.assignment for each in decode_large_request(sync, 5, encoded, 0).assignments
    )
    assert type(short) is bytes
    assert long == longest + b"x"
    assert long.obj is encoded


def test_a_message_that_ends_early() -> None:
    metadata = BY_NAME["metadata"].key
    encoded = encode(request(metadata, 9, topics=[{"name": "a"}, {"name": "b"}]))
    for end in range(len(encoded)):
        with pytest.raises(MalformedError):
            decode_large_request(metadata, 9, encoded[:end], 0)


def test_other_threads_run_meanwhile() -> None:
    """This thread gets turns while another one reads."""
    metadata = BY_NAME["metadata"].key
    topics = [{"name": f"topic-{n}"} for n in range(100_000)]
    encoded = encode(request(metadata, 9, topics=topics))
    read = threading.Event()

    def decode() -> None:
        assert len(decode_large_request(metadata, 9, encoded, 0).topics) == len(topics)
        read.set()

    thread = threading.Thread(target=decode)
    thread.start()
    turns = 0
    while not read.wait(0.001):
        turns += 1
    thread.join()
    assert turns >= 2
