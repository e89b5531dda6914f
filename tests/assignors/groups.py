"""Groups to assign for: short ways to write them, and hypothesis's."""

from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from kohort.assignors import Assignment, Assignor, Member, Topics
from kohort.types import InstanceId, MemberId, TopicPartition


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """ "t0 t1 u0": topics of one letter."""
    return tuple(TopicPartition(word[0], int(word[1:])) for word in text.split())


def member(
    name: str, topics: str, *, instance: str | None = None, rack: str | None = None
) -> Member:
    """A member that joins for the first time; topics of one letter."""
    return Member(
        member_id=MemberId(name),
        instance_id=None if instance is None else InstanceId(instance),
        topics=tuple(topics),
        rack=rack,
    )


def owning(
    assignor: Assignor, of: Member, owned: Sequence[TopicPartition], generation: int = 1
) -> Member:
    """The member as it rejoins with what it was assigned."""
    return Member(
        member_id=of.member_id,
        instance_id=of.instance_id,
        topics=of.topics,
        rack=of.rack,
        owned_partitions=tuple(owned) if len(assignor.protocols) > 1 else (),
        generation=generation,
        user_data=assignor.subscription_user_data(owned, generation),
    )


def rejoining(
    assignor: Assignor,
    members: Iterable[Member],
    assigned: Mapping[MemberId, Assignment],
    generation: int = 1,
) -> list[Member]:
    return [
        owning(assignor, one, assigned[one.member_id].partitions, generation)
        if one.member_id in assigned
        else one
        for one in members
    ]


def shown(assigned: Mapping[MemberId, Assignment]) -> dict[str, str]:
    """Member -> "t0 t1 u0", in the order of the assignment."""
    return {
        name: " ".join(f"{t}{p}" for t, p in each.partitions) for name, each in assigned.items()
    }


RACKS = st.none() | st.sampled_from("xyz")
REPLICAS = st.frozensets(st.sampled_from("xyz"), max_size=2)
TOPICS: st.SearchStrategy[Topics] = st.dictionaries(
    st.sampled_from("tuvw"), st.lists(REPLICAS, max_size=5), max_size=4
)
OWNED = st.lists(
    st.builds(TopicPartition, st.sampled_from("tuvwq"), st.integers(0, 6)), max_size=4, unique=True
)


@st.composite
def groups(draw: st.DrawFn, assignor: Assignor) -> list[Member]:
    """Members with any past, right or not."""
    names = draw(
        st.lists(
            st.text("ab\ufb01\U0001f600", min_size=1, max_size=3),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    fresh = [
        Member(
            member_id=MemberId(name),
            instance_id=draw(st.none() | st.just(InstanceId(f"i{name}"))),
            topics=tuple(draw(st.lists(st.sampled_from("tuvwq"), unique=True))),
            rack=draw(RACKS),
        )
        for name in names
    ]
    return [owning(assignor, one, draw(OWNED), draw(st.integers(-1, 3))) for one in fresh]
