"""Delete groups without members, and all their committed offsets.

There is no undo. `kohort groups reset --to-current --plan FILE` saves the offsets first.
"""

import argparse

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.group_options import add_group_arguments, check_groups, groups_of
from kohort.cli.near_names import near_groups
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.client.admin import Admin
from kohort.client.resets import describe_members
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import GroupId


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_group_arguments(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_groups(options)

    async def work(admin: Admin) -> int:
        results = await admin.delete_groups(await groups_of(options, admin))
        reasons = {group: await _failure(admin, group, error) for group, error in results.items()}
        _show(options, reasons)
        for group, why in reasons.items():
            if why:
                print_message(f"group {group} is not deleted: {why}")
        return _code(list(results.values()))

    return run_with_admin(options, work)


async def _failure(admin: Admin, group: GroupId, error: KohortError | None) -> str:
    if isinstance(error, KafkaError) and error.code is ErrorCode.group_id_not_found:
        return f"{error}{await near_groups(admin, [group])}"
    if not isinstance(error, KafkaError) or error.code is not ErrorCode.non_empty_group:
        return "" if error is None else str(error)
    described = (await admin.describe_groups([group]))[group]
    return str(
        error
        if isinstance(described, KohortError)
        else (f"it has members: {describe_members(described)}")
    )


def _show(options: argparse.Namespace, reasons: dict[GroupId, str]) -> None:
    table = Table(
        ("GROUP", "STATUS"),
        [(group, f"Error: {why}" if why else "Deleted") for group, why in reasons.items()],
    )
    as_json = [
        {"group": group, "deleted": not why, "error": why or None} for group, why in reasons.items()
    ]
    show(options.output, table, as_json)


def _code(errors: list[KohortError | None]) -> int:
    """Members in the way are another matter than a coordinator that cannot be reached."""
    failures = [error for error in errors if error is not None]
    if not failures:
        return 0
    members = all(
        isinstance(error, KafkaError) and error.code is ErrorCode.non_empty_group
        for error in failures
    )
    return FOUND if members else FAILED
