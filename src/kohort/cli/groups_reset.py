"""Move the committed offsets of groups without members.

It is a dry run unless --execute is given. An executed reset is verified, and its plan file is kept
for an undo.

One specification: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime,
--by-duration, --from-file or --from-group. One scope: --topic (repeatable) or --all-topics, which
are all topics with committed offsets. New offsets stay within the log, with a warning if they
differ from the requested ones.
"""

import argparse
from collections.abc import Sequence

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.group_options import (
    add_group_arguments,
    add_topic_argument,
    check_groups,
    groups_of,
    topics,
)
from kohort.cli.near_names import near_groups
from kohort.cli.options import RefusedError
from kohort.cli.output import add_output_argument, check_output, warn, write_csv
from kohort.cli.plan_options import (
    add_plan_arguments,
    check_plan_arguments,
    execute_or_write,
    print_dry_run,
    warn_of_changes,
)
from kohort.cli.reset_options import add_specification_arguments, has_scope, of_group, specification
from kohort.cli.reset_tables import guarded, show_plan
from kohort.client.admin import Admin
from kohort.client.resets import ResetPlan, now_ms, plan_reset, write_offsets
from kohort.types import GroupId


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_group_arguments(parser)
    add_topic_argument(parser, "a topic, or some of its partitions; repeatable")
    parser.add_argument(
        "--all-topics", action="store_true", help=("reset all topics with committed offsets")
    )
    add_specification_arguments(parser)
    add_execution_arguments(parser)
    add_output_argument(parser)


def add_execution_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for execution and the plan file."""
    add_plan_arguments(parser, "reset")
    parser.add_argument(
        "--export",
        action="store_true",
        help=("print the new offsets as CSV, for --from-file"),
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    _check(options)
    requested = specification(options, now_ms())
    scope = topics(options) if options.topic else None

    async def work(admin: Admin) -> int:
        groups = await groups_of(options, admin)
        target = requested or await of_group(admin, GroupId(options.from_group), groups, scope)
        plan = await plan_reset(admin, groups, target, scope)
        await _warn(admin, groups if requested else [], plan)  # a copy may well make a new group
        if not plan.changes:
            return FAILED
        await execute_or_write(admin, options, plan)
        _show(options, plan)
        if not options.export:
            print_dry_run(options)
        return 0

    return run_with_admin(options, lambda admin: guarded(work(admin)))


async def _warn(admin: Admin, groups: Sequence[GroupId], plan: ResetPlan) -> None:
    """Warn of a reset without effect, or of one that would create a group by a mistyped id."""
    for group in groups:
        if not plan.of(group):
            hint = await near_groups(admin, [group])
            warn(f"group {group} has no committed offsets: nothing to reset{hint}")
        elif all(change.old is None for change in plan.of(group)):
            hint = await near_groups(admin, [group]) or ": is its name right?"
            warn(f"group {group} has no committed offsets there{hint}")
    warn_of_changes(plan)


def _check(options: argparse.Namespace) -> None:
    check_output(options)
    check_groups(options)
    check_plan_arguments(options)
    if not has_scope(options):
        raise RefusedError(
            "a scope is missing: either --topic TOPIC[:0,1,2] (repeatable) or --all-topics"
        )


def _show(options: argparse.Namespace, plan: ResetPlan) -> None:
    if options.export:
        write_csv(write_offsets(plan.changes, with_group=len(options.group) != 1))
    else:
        show_plan(options.output, plan)
