"""Show the assignment after members join or leave or topics grow, by the assignor itself.

Without a change it shows the result of a rebalance now. Nothing is changed.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.group_tables import partition_list
from kohort.cli.name_arguments import add_name
from kohort.cli.near_names import near_groups, near_topics
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.client.admin import CONSUMER, Admin, GroupDescription, MemberDescription
from kohort.errors import ConfigError, ErrorCode, KohortError, unless_error
from kohort.types import GroupId, MemberId

if TYPE_CHECKING:
    from kohort.assignors.base import Member, Topics
    from kohort.assignors.plan import Balance, Change, Plan

NEW: Final = "new-{number}"
"""Prefix of the member ids of joining members."""
DEFAULT_ASSIGNOR: Final = "range"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    add_name(parser, "--group", "GROUP", "group id")
    add("--join", metavar="N", type=int, default=0, help="number of members to add")
    add(
        "--leave",
        metavar="MEMBER",
        action="append",
        default=[],
        help="member to remove, by member id, instance id or client id; repeatable",
    )
    add(
        "--partitions",
        metavar="TOPIC=N",
        action="append",
        default=[],
        help="number of partitions of a topic; repeatable",
    )
    add(
        "--topic",
        metavar="TOPIC",
        action="append",
        default=[],
        help="topic that added members subscribe to; repeatable",
    )
    add(
        "--assignor",
        metavar="NAME",
        help=("assignor: range, roundrobin, sticky or cooperative-sticky (default: the group's)"),
    )
    add(
        "--moves",
        action="store_true",
        help=("show one row per moved partition instead of one per member"),
    )
    add(
        "--balance",
        action="store_true",
        help=("show the balance before and after instead of the moves"),
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    growing = _growing(options.partitions)
    if options.moves and options.balance:
        raise RefusedError("--moves, --balance: choose one of the two")
    if options.join < 0:
        raise RefusedError(f"--join {options.join}: is not a number of members")

    async def work(admin: Admin) -> int:
        group = await _described(admin, GroupId(options.group))
        _show(options, group, await _plan(admin, options, group, growing))
        return 0

    return run_with_admin(options, work)


def _growing(additions: Sequence[str]) -> dict[str, int]:
    growing = {}
    for word in additions:
        topic, _, count = word.rpartition("=")
        if not topic or not count.isdecimal():
            raise RefusedError(f"--partitions {word}: is not TOPIC=N")
        growing[topic] = int(count)
    return growing


async def _described(admin: Admin, group: GroupId) -> GroupDescription:
    """The group with its members' subscriptions. Raises KohortError."""
    described = unless_error((await admin.describe_groups([group]))[group])
    if described.members and described.protocol_type != CONSUMER:
        raise KohortError(
            f"group {group} has protocol type {described.protocol_type}: its members are "
            "not consumers"
        )
    if any(member.topics is None or member.assignment is None for member in described.members):
        raise KohortError(
            f"group {group} is {described.state}: subscriptions are available when it is Stable"
        )
    return described


async def _plan(
    admin: Admin, options: argparse.Namespace, group: GroupDescription, growing: dict[str, int]
) -> "Plan":
    from kohort.assignors.plan import plan
    from kohort.assignors.registry import assignor

    chosen = assignor(options.assignor or group.assignor or DEFAULT_ASSIGNOR)
    members = [_member(member) for member in group.members]
    if options.join and not options.topic and not any(member.topics for member in members):
        hint = "" if members else await near_groups(admin, [group.group])
        raise RefusedError(
            f"group {group.group} has no members, so its subscription is unknown: name it by "
            f"--topic TOPIC{hint}"
        )
    change = _change(options, group, members, growing)
    names = {topic for member in (*members, *change.joining) for topic in member.topics}
    topics = await _topics(admin, names | growing.keys())
    if missing := [name for name in (*(options.topic or ()), *growing) if name not in topics]:
        hint = await near_topics(admin, missing)
        raise KohortError(f"topic {missing[0]} does not exist{hint}")
    return plan(chosen, topics, members, change)


def _member(member: MemberDescription) -> "Member":
    from kohort.assignors.base import Member

    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        topics=member.topics or (),
        owned_partitions=member.assignment or (),
        rack=member.rack,
    )


def _change(
    options: argparse.Namespace,
    group: GroupDescription,
    members: Sequence["Member"],
    growing: dict[str, int],
) -> "Change":
    from kohort.assignors.base import Member
    from kohort.assignors.plan import Change

    topics = tuple(
        options.topic or sorted({topic for member in members for topic in member.topics})
    )
    joining = [
        Member(member_id=MemberId(NEW.format(number=1 + n)), topics=topics)
        for n in range(options.join)
    ]
    return Change(
        joining=joining, leaving=_leaving(options.leave, group.members), partitions=growing
    )


def _leaving(names: Sequence[str], members: Sequence[MemberDescription]) -> set[MemberId]:
    """Raises ConfigError for a name that no member has, or several have."""
    leaving: set[MemberId] = set()
    for name in names:
        meant = [
            member.member_id
            for member in members
            if name in (member.member_id, member.instance_id, member.client_id)
        ]
        if len(meant) != 1:
            member_ids = ", ".join(member.member_id for member in members) or "none"
            raise ConfigError(
                f"--leave {name}: matches {len(meant)} members; the group has {member_ids}"
            )
        leaving.add(meant[0])
    return leaving


async def _topics(admin: Admin, names: set[str]) -> "Topics":
    """The existing topics, with the racks of their replicas."""
    metadata = await admin.cluster.metadata(names)
    racks = {node: broker.rack for node, broker in metadata.brokers.items()}
    return {
        name: [
            frozenset(rack for replica in partition.replicas if (rack := racks.get(replica)))
            for partition in topic.partitions
        ]
        for name, topic in metadata.topics.items()
        if topic.error is ErrorCode.none
    }


# --- showing
# ------------------------------------------------------------


def _show(options: argparse.Namespace, group: GroupDescription, plan: "Plan") -> None:
    if options.balance:
        table = _balance_table(plan)
    else:
        table = _moves_table(plan) if options.moves else _members_table(group, plan)
    show(options.output, table, _as_json(plan))
    rebalances = f"{plan.rounds} rebalance{'' if plan.rounds == 1 else 's'}"
    print_message(
        f"{len(plan.moves)} of {sum(map(len, plan.after.values()))} partitions move, "
        f"{plan.moved} of them away from "
        f"members that stay; {rebalances}, {plan.interrupted} partitions interrupted; "
        f"partitions per member: {_spread(plan.balance_before)} before, "
        f"{_spread(plan.balance_after)} after"
    )


def _spread(balance: "Balance") -> str:
    return (
        f"{balance.fewest} to {balance.most}"
        if balance.fewest < balance.most
        else str(balance.most)
    )


def _members_table(group: GroupDescription, plan: "Plan") -> Table:
    clients = {member.member_id: member.client_id for member in group.members}
    columns = ("CONSUMER-ID", "CLIENT-ID", "#BEFORE", "#AFTER", "GAINS", "LOSES", "ASSIGNMENT")
    rows = []
    for member in (*plan.before, *(member for member in plan.after if member not in plan.before)):
        before, after = set(plan.before.get(member, ())), set(plan.after.get(member, ()))
        counts = (
            len(before) if member in plan.before else None,
            len(after) if member in plan.after else None,
            len(after - before),
            len(before - after),
        )
        rows.append((member, clients.get(member), *counts, partition_list(sorted(after))))
    return Table(columns, rows)


def _balance_table(plan: "Plan") -> Table:
    columns = ("WHEN", "#MEMBERS", "#PARTITIONS", "FEWEST", "MOST", "MEAN", "MOVES")
    sides = (
        ("before", plan.before, plan.balance_before, None),
        ("after", plan.after, plan.balance_after, len(plan.moves)),
    )
    return Table(
        columns,
        [
            (
                when,
                len(division),
                sum(map(len, division.values())),
                balance.fewest,
                balance.most,
                round(balance.mean, 2),
                moves,
            )
            for when, division, balance, moves in sides
        ],
    )


def _moves_table(plan: "Plan") -> Table:
    rows = [
        (move.partition.topic, move.partition.partition, move.before, move.after)
        for move in plan.moves
    ]
    return Table(("TOPIC", "PARTITION", "FROM", "TO"), rows)


def _as_json(plan: "Plan") -> dict[str, Any]:
    return {
        "before": {
            member: list(map(list, partitions)) for member, partitions in plan.before.items()
        },
        "after": {member: list(map(list, partitions)) for member, partitions in plan.after.items()},
        "moves": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "from": move.before,
                "to": move.after,
            }
            for move in plan.moves
        ],
        "balance_before": plan.balance_before._asdict(),
        "balance_after": plan.balance_after._asdict(),
        "partitions_that_move": len(plan.moves),
        "moved_from_staying": plan.moved,
        "rebalances": plan.rounds,
        "interrupted": plan.interrupted,
    }
