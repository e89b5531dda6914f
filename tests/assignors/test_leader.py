"""The leader on the wire: blobs of every version in, blobs out."""

import struct

import pytest

from kohort.assignors import (
    Assignment,
    Assignor,
    Member,
    SubscribedMember,
    assignor,
    encode_metadata,
    perform_assignment,
    subscribed_topics,
    without_racks,
)
from kohort.errors import ConfigError
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from kohort.types import InstanceId, MemberId

from .groups import partitions


def joined(name: str, metadata: bytes, instance: str | None = None) -> SubscribedMember:
    return SubscribedMember(
        MemberId(name), None if instance is None else InstanceId(instance), metadata
    )


def read(of: list[tuple[MemberId, bytes]]) -> dict[str, tuple]:
    return {member: decode_assignment(data).partitions for member, data in of}


def test_members_of_every_version_share_a_group() -> None:
    members = [
        joined(f"m{version}", encode_subscription(Subscription(topics=("t",), version=version)))
        for version in range(4)
    ]
    future = joined("m9", struct.pack(">h", 9) + members[3].metadata[2:] + b"fields of the future")
    answer = perform_assignment("range", without_racks({"t": 5}), [future, *members])
    assert [member for member, _ in answer] == ["m0", "m1", "m2", "m3", "m9"]
    assert read(answer) == {f"m{n}": partitions(f"t{at}") for at, n in enumerate((0, 1, 2, 3, 9))}


def test_a_subscription_that_a_member_writes_is_read_by_its_leader() -> None:
    sticky = assignor("cooperative-sticky")
    owned = partitions("u0 t1")
    data = encode_metadata(
        sticky, ["u", "t"], previous=owned, owned_partitions=owned, generation=4, rack="x"
    )
    assert decode_subscription(data) == Subscription(
        topics=("t", "u"),
        user_data=struct.pack(">i", 4),
        owned=partitions("t1 u0"),
        generation=4,
        rack="x",
    )


def test_sticky_across_the_wire() -> None:
    sticky = assignor("sticky")
    mine = encode_metadata(sticky, "t", previous=partitions("t1 t2"), generation=1)
    members = [joined("b", mine), joined("a", encode_metadata(sticky, "t"))]
    answer = perform_assignment("sticky", without_racks({"t": 4}), members)
    assert read(answer) == {"a": partitions("t0 t3"), "b": partitions("t1 t2")}


def test_each_topic_is_written_once() -> None:
    """Other clients keep the last of two entries of one topic."""

    class Mixing(Assignor):
        name = "mixing"

        def assign(self, topics, members):
            mixed = Assignment(partitions=partitions("u0 t0 u1 t1"), user_data=b"!")
            return {each.member_id: mixed for each in members}

    member = joined("a", encode_metadata(Mixing(), "tu"))
    ((_, data),) = perform_assignment(Mixing(), without_racks({"t": 2, "u": 2}), [member])
    assert decode_assignment(data) == Assignment(
        partitions=partitions("u0 u1 t0 t1"), user_data=b"!"
    )
    assert data.count(b"\0\1u") == data.count(b"\0\1t") == 1


def test_the_leader_watches_all_topics() -> None:
    members = [
        joined(name, encode_metadata(assignor("range"), topic))
        for name, topic in (("a", "t"), ("b", "u"))
    ]
    assert subscribed_topics(members) == {"t", "u"}


def test_the_member_whose_subscription_is_malformed_is_named() -> None:
    with pytest.raises(MalformedError, match="the subscription of member 'b'"):
        perform_assignment("range", {}, [joined("b", b"\0")])


def test_an_unknown_name() -> None:
    with pytest.raises(
        ConfigError, match=("choose among range, roundrobin, sticky, cooperative-sticky")
    ):
        perform_assignment("uniform", {}, [])


def test_an_own_assignor_has_defaults_for_all_but_assign() -> None:
    class Mine(Assignor):
        name = "mine"

        def assign(self, topics, members):
            return {each.member_id: Assignment(partitions=()) for each in members}

    mine = Mine()
    mine.on_assignment(Assignment(partitions=()), 1)
    assert mine.subscription_user_data((), -1) is None
    assert mine.version == 0
    assert mine.assign({}, [Member(member_id=MemberId("a"), topics=())]).keys() == {"a"}
