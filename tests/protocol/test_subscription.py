"""The consumer protocol's blobs: as kio writes them, and as tolerant as Java reads them."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.static.constants import EntityType

from effort import examples
from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import encode
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from kohort.types import TopicPartition
from protocol.wire_entities import entities

texts = st.text(max_size=5)
partitions = st.dictionaries(
    texts, st.lists(st.integers(0, 99), min_size=1, max_size=3), max_size=3
).map(
    lambda topics: tuple(
        TopicPartition(topic, index) for topic, indexes in topics.items() for index in indexes
    )
)


@given(
    st.builds(
        Subscription,
        topics=st.lists(texts, max_size=3).map(tuple),
        user_data=st.none() | st.binary(max_size=5),
        owned=partitions,
        generation=st.integers(-1, 2**31 - 1),
        rack=st.none() | texts,
        version=st.just(3),
    )
)
def test_subscriptions_survive_the_wire(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert subscribed_topics(encode_subscription(subscription)) == frozenset(subscription.topics)


@given(st.builds(Assignment, partitions=partitions, user_data=st.none() | st.binary(max_size=5)))
def test_assignments_survive_the_wire(assignment: Assignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


@pytest.mark.parametrize("version", range(4))
@settings(max_examples=examples(20), database=None)
@given(st.data())
def test_the_bytes_are_those_that_kio_writes(version: int, data: st.DataObject) -> None:
    kind = load_entity_schema("consumer_protocol_subscription", version, EntityType.data)
    entity = data.draw(entities(kind))
    encoded = struct.pack(">h", version) + encode(entity)
    decoded = decode_subscription(encoded)
    assert decoded.topics == entity.topics
    assert decoded.user_data == entity.user_data
    assert decoded.version == version
    if version >= 2:
        assert decoded.generation == entity.generation_id


def test_fields_that_a_version_lacks_are_left_out() -> None:
    full = Subscription(topics=("t",), owned=(TopicPartition("t", 1),), generation=5, rack="r")
    for version in range(4):
        written = Subscription(
            topics=full.topics,
            owned=full.owned,
            generation=full.generation,
            rack=full.rack,
            version=version,
        )
        read = decode_subscription(encode_subscription(written))
        assert bool(read.owned) is (version >= 1)
        assert read.generation == (5 if version >= 2 else -1)
        assert read.rack == ("r" if version >= 3 else None)


def test_the_bytes_that_the_java_client_sends() -> None:
    java = bytes.fromhex("0003000000010007666c6967687473ffffffff00000000ffffffffffff")
    assert decode_subscription(java) == Subscription(topics=("flights",))
    assert encode_subscription(Subscription(topics=("flights",))) == java
    assert decode_assignment(
        bytes.fromhex("000000000001000174000000020000000000000003ffffffff")
    ) == (Assignment(partitions=(TopicPartition("t", 0), TopicPartition("t", 3)), version=0))


def test_a_higher_version_is_read_with_the_highest_known() -> None:
    known = encode_subscription(Subscription(topics=("t",), rack="r"))
    newer = struct.pack(">h", 9) + known[2:] + b"fields of the future"
    assert decode_subscription(newer) == Subscription(topics=("t",), rack="r", version=9)
    assert subscribed_topics(newer) == {"t"}
    assert (
        decode_assignment(
            struct.pack(">h", 9) + encode_assignment(Assignment(partitions=()))[2:]
        ).version
        == 9
    )


def test_the_coordinator_reads_the_v0_prefix_only() -> None:
    v3 = encode_subscription(Subscription(topics=("t",), owned=(TopicPartition("t", 1),)))
    prefix = v3[: 2 + 4 + 3 + 4]
    assert subscribed_topics(prefix + b"\xff\xff") == {"t"}
    with pytest.raises(MalformedError):
        decode_subscription(prefix + b"\xff\xff")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\x7f\xff\xff\xff",  # an impossible number of topics
        b"\0\0\xff\xff\xff\xff",  # null topics
        b"\0\0\0\0\0\x01\0\x05ab",
        b"\0\0\0\0\0\x01\0\x01t",  # no user data
        b"not a subscription at all",
    ],
)
def test_blobs_that_cannot_be_read(data: bytes) -> None:
    assert subscribed_topics(data) is None
    with pytest.raises(MalformedError):
        decode_subscription(data)


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    topics = subscribed_topics(data)
    assert topics is None or isinstance(topics, frozenset)
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except MalformedError:
            pass
