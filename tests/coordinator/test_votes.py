"""The protocol vote: candidates are the names that all members offer, and each member votes for its
first one.
"""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.responses import JoinedMember


def offered(names, metadata=b""):
    """The words of `names` as protocols, in that order."""
    return [(name, metadata) for name in names.split()]


def vote(bench, *preferences):
    """The protocol that members with these preferences choose; their ids."""
    calls = [bench.handshake(protocols=offered(names)) for names in preferences]
    bench.advance(0)
    (chosen,) = {call.response.protocol_name for call in calls}
    return chosen, [call.response.member_id for call in calls]


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        (["x y", "x y"], "x"),
        (["x y", "y x", "y x"], "y"),
        (["x y z", "z y x", "z x y"], "z"),
        (["x y", "x y", "y"], "y"),
        (["u y x", "v y x", "x y"], "y"),
    ],
    ids=[
        "the first choice of all",
        "the majority wins",
        "the leader has one vote like everybody",
        "a protocol that not all offer gets no vote",
        "who prefers what is no candidate votes for the next in its own order",
    ],
)
def test_the_protocol_of_most_first_choices_wins(bench, preferences, chosen):
    assert vote(bench, *preferences)[0] == chosen


def test_a_tie_goes_to_a_candidate(bench):
    """§1.2: in unspecified order; here to what reached the number first."""
    assert vote(bench, "x y", "y x")[0] == "x"


def test_a_protocol_named_twice_is_offered_once(bench):
    """§3, Where Kafka is wrong: duplicate protocol names wedge a group there for good."""
    chosen, (first, _) = vote(bench, "x x y", "y")
    assert chosen == "y"
    assert bench.join("g", first, protocols=offered("y y")).parked
    assert bench.state() is State.PREPARING_REBALANCE


def test_the_empty_name_is_a_name_like_any(bench):
    joining = bench.handshake(protocols={"": b"metadata"})
    bench.advance(0)
    assert joining.response.protocol_name == ""
    assert joining.response.members[0].metadata == b"metadata"


def test_the_leader_gets_everybodys_metadata_of_the_chosen_protocol(bench):
    a = bench.handshake(protocols=[("x", b"ax"), ("y", b"ay")])
    b = bench.handshake(protocols=[("z", b"bz"), ("y", b"by")])
    bench.advance(0)
    assert a.response.members == (
        JoinedMember(member_id=a.response.member_id, instance_id=None, metadata=b"ay"),
        JoinedMember(member_id=b.response.member_id, instance_id=None, metadata=b"by"),
    )
    assert b.response.members == ()


def test_a_rolling_upgrade_changes_the_assignor_with_the_last_member(bench):
    """known-mistakes, SeaweedFS: one metadata blob per member, so no rolling change of assignor."""
    old, new = offered("range", b"old"), offered("cooperative-sticky range", b"new")
    a, b = bench.stable(members=2, protocols=old)
    bench.join("g", a, protocols=new)
    assert bench.join("g", b, protocols=old).response.protocol_name == "range"
    bench.join("g", b, protocols=new)
    assert bench.join("g", a, protocols=new).response.protocol_name == "cooperative-sticky"


def test_a_newcomer_narrows_the_candidates(bench):
    (a,) = bench.stable(protocols=offered("x y"))
    newcomer = bench.handshake(protocols=offered("y"))
    bench.join("g", a, protocols=offered("x y"))
    assert newcomer.response.protocol_name == "y"


def test_a_member_that_drops_the_chosen_protocol_starts_a_new_vote(bench):
    a, b = bench.stable(members=2, protocols=offered("x y"))
    dropping = bench.join("g", b, protocols=offered("y"))
    bench.join("g", a, protocols=offered("x y"))
    assert dropping.response.protocol_name == "y"


def test_when_the_only_member_without_a_protocol_leaves_it_is_a_candidate_again(bench):
    _, (a, b) = vote(bench, "x y", "y")
    assert bench.join("g", a, protocols=offered("x")).error == "inconsistent_group_protocol"
    bench.leave("g", b)
    assert bench.join("g", a, protocols=offered("x")).response.protocol_name == "x"


def test_a_parked_member_that_joins_again_votes_by_the_later_order(bench):
    a, b = bench.stable(members=2, protocols=offered("x y"))
    bench.join("g", b, protocols=offered("x y z"))
    later = bench.join("g", b, protocols=offered("y x"))
    bench.join("g", a, protocols=offered("y x"))
    assert later.response.protocol_name == "y"


def test_a_member_that_has_not_rejoined_does_not_vote(bench):
    chosen, (a, _, _) = vote(bench, "y x", "x y", "x y")
    assert chosen == "x"
    joining = bench.join("g", a, protocols=offered("y x z"))
    bench.advance(60_000)
    assert joining.response.protocol_name == "y"


def test_after_a_restart_of_the_coordinator_only_the_chosen_protocol_is_known(bench):
    """§1.11: the list of protocols is not persisted."""
    a, b = bench.stable(members=2, protocols=offered("x y", b"m"))
    bench.restart()
    assert bench.join("g", a, protocols=offered("y")).error == "inconsistent_group_protocol"
    bench.join("g", a, protocols=offered("y x"))
    assert bench.join("g", b, protocols=offered("y x")).response.protocol_name == "y"


def test_names_that_nobody_offers_any_more_are_forgotten(bench):
    (member_id,) = bench.stable(protocols=offered("range"))
    for n in range(50):
        bench.join("g", member_id, protocols=offered(f"range {n}"))
    assert set(bench.group().supported) == {"range", "49"}
    bench.leave("g", member_id)
    assert not bench.group().supported
