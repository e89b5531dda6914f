"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete over the wire, in every version."""

import pytest

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from kohort.types import TopicPartition
from server.net.bench import Wire
from server.net.group_requests import codes, versions


def described(request: asked.DescribeGroup) -> answered.DescribeGroupResponse:
    if request.group != "g":
        error = ErrorCode.group_id_not_found if request.version >= 6 else ErrorCode.none
        message = f"Group {request.group} not found." if request.version >= 6 else None
        return answered.DescribeGroupResponse(
            error=error, error_message=message, group=request.group, state="Dead"
        )
    return answered.DescribeGroupResponse(
        group="g",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(
            answered.DescribedMember(
                member_id="m",
                instance_id="i",
                client_id="c",
                client_host="/127.0.0.1",
                metadata=b"meta",
                assignment=b"assigned",
            ),
        ),
    )


@versions("describe_groups")
@pytest.mark.parametrize("with_operations", [False, True])
async def test_describe_groups_is_answered_in_every_version(
    version: int, with_operations: bool
) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.DescribeGroup] = described
        answer = await (await wire.peer()).ask(
            "describe_groups",
            version,
            groups=["g", "none", "g"],
            include_authorized_operations=with_operations,
        )
        assert [request.version for request in wire.groups.submitted] == [version] * 3
        there, none, again = answer.groups
        assert there == again
        assert (there.group_id, there.group_state, there.error_code) == ("g", "Stable", 0)
        assert (there.protocol_type, there.protocol_data) == ("consumer", "range")
        member = there.members[0]
        assert (member.member_id, member.client_id, member.client_host) == ("m", "c", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"meta", b"assigned")
        assert getattr(member, "group_instance_id", "i") == "i"
        assert (none.group_state, none.error_code) == ("Dead", 69 if version >= 6 else 0)
        if version >= 6:
            assert (there.error_message, none.error_message) == (None, "Group none not found.")
        # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: what Kafka 4.4 answers
        if version >= 3:
            assert there.authorized_operations == (3400 if with_operations else -(2**31))
            assert none.authorized_operations == (
                3400 if with_operations and version < 6 else -(2**31)
            )


@versions("list_groups")
async def test_list_groups_is_answered_in_every_version(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ListGroups] = answered.ListGroupsResponse(
            groups=(
                answered.ListedGroup("g", "consumer", "Stable"),
                answered.ListedGroup("", "", "Empty"),
            )
        )
        answer = await (await wire.peer()).ask(
            "list_groups", version, states_filter=["stable", "Empty"], types_filter=["Classic"]
        )
        request = wire.groups.submitted[0]
        assert request.states == (("stable", "Empty") if version >= 4 else ())
        assert request.types == (("Classic",) if version >= 5 else ())
        assert [(group.group_id, group.protocol_type) for group in answer.groups] == [
            ("g", "consumer"),
            ("", ""),
        ]
        assert getattr(answer.groups[0], "group_state", "Stable") == "Stable"
        assert getattr(answer.groups[0], "group_type", "classic") == "classic"


@versions("list_groups")
async def test_list_groups_while_loading(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ListGroups] = answered.ListGroupsResponse(
            error=ErrorCode.coordinator_load_in_progress
        )
        answer = await (await wire.peer()).ask("list_groups", version)
        assert (answer.error_code, answer.groups) == (14, ())


@versions("delete_groups")
async def test_delete_groups_is_answered_in_every_version(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.DeleteGroup] = lambda request: answered.DeleteGroupResponse(
            ErrorCode.none if request.group == "a" else ErrorCode.group_id_not_found
        )
        peer = await wire.peer()
        answer = await peer.ask("delete_groups", version, groups_names=["b", "a", "b", ""])
        assert [(result.group_id, result.error_code) for result in answer.results] == [
            ("b", 69),
            ("a", 0),
            ("", 69),
        ]
        assert (await peer.ask("delete_groups", version, groups_names=[])).results == ()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorCode.none, None),
        (ErrorCode.group_id_not_found, None),
        (ErrorCode.non_empty_group, None),
        (ErrorCode.not_coordinator, "This is not the correct coordinator."),
        (ErrorCode.coordinator_not_available, "The coordinator is not available."),
        (
            ErrorCode.coordinator_load_in_progress,
            "The coordinator is loading and hence can't process requests.",
        ),
    ],
)
async def test_only_errors_of_the_coordinator_have_a_text(
    error: ErrorCode, text: str | None
) -> None:
    """The texts of Apache Kafka 4.4."""
    async with Wire() as wire:
        wire.groups.answers[asked.DeleteGroup] = answered.DeleteGroupResponse(error)
        answer = await (await wire.peer()).ask("delete_groups", 3, groups_names=["g"])
        assert [(each.error_code, each.error_message) for each in answer.results] == [(error, text)]


def indexes(*partitions: int) -> list[dict[str, int]]:
    return [{"partition_index": partition} for partition in partitions]


def all_deleted(request: asked.OffsetDelete) -> answered.OffsetDeleteResponse:
    return answered.OffsetDeleteResponse(
        results=tuple((each, ErrorCode.none) for each in request.partitions)
    )


async def test_offset_delete_answers_each_partition() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetDelete] = all_deleted
        answer = await (await wire.peer()).ask(
            "offset_delete",
            0,
            group_id="g",
            topics=[
                {"name": "orders", "partitions": indexes(0, 9, 0)},
                {"name": "nope", "partitions": indexes(0)},
                {"name": "orders", "partitions": indexes(1)},
                {"name": "also not", "partitions": []},
            ],
        )
        assert wire.groups.submitted[0].partitions == tuple(
            TopicPartition("orders", index) for index in (0, 0, 1)
        )
        assert answer.error_code == 0
        assert codes(answer.topics) == [  # as Kafka 4.4
            ("orders", [(9, 3), (0, 0), (0, 0), (1, 0)]),
            ("nope", [(0, 3)]),
            ("also not", []),
        ]


async def test_an_error_of_the_whole_group_goes_before_partitions_that_do_not_exist() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetDelete] = answered.OffsetDeleteResponse(
            error=ErrorCode.invalid_group_id
        )
        answer = await (await wire.peer()).ask(
            "offset_delete", 0, group_id="", topics=[{"name": "nope", "partitions": indexes(0)}]
        )
        assert (answer.error_code, answer.topics) == (24, ())
