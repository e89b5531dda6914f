"""Options of commands that change committed offsets by a plan, and what is done with the plan."""

import argparse
from dataclasses import replace
from pathlib import Path

from kohort.cli import plan_files
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message, warn
from kohort.client.admin import Admin
from kohort.client.resets import ResetPlan, execute, now_ms


def add_plan_arguments(parser: argparse.ArgumentParser, subject: str) -> None:
    """Options for execution and the plan file; `subject`: what is executed."""
    parser.add_argument("--execute", action="store_true", help=f"execute the {subject}")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the new offsets only (default)"
    )
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="write old and new offsets to this file, as JSON"
    )
    parser.add_argument(
        "--no-plan",
        action="store_true",
        help=f"execute without a plan file; the {subject} cannot be undone",
    )


def check_plan_arguments(options: argparse.Namespace) -> None:
    """Raises RefusedError."""
    if options.execute and options.dry_run:
        raise RefusedError("choose one of --execute and --dry-run")
    if options.plan and options.no_plan:
        raise RefusedError("choose one of --plan and --no-plan")
    if options.plan and options.plan.exists():
        raise RefusedError(
            f"--plan {options.plan}: exists, and may be needed to undo an earlier reset"
        )


async def execute_or_write(admin: Admin, options: argparse.Namespace, plan: ResetPlan) -> None:
    """Execute the plan with --execute, and verify it; else only write the file of --plan.

    Raises as `execute`, and RefusedError for a file that cannot be written.
    """
    if options.execute:
        await _execute(admin, options, plan)
    elif options.plan:
        plan_files.write_new(options.plan, plan)


async def _execute(admin: Admin, options: argparse.Namespace, plan: ResetPlan) -> None:
    path = None if options.no_plan else options.plan or plan_files.default_path(plan)
    if path is not None:
        # First: should we be killed in between, the old offsets are known.
        plan_files.write_new(path, plan)
    await execute(admin, plan)
    if path is not None:
        plan_files.rewrite(path, replace(plan, executed_at_ms=now_ms()))
        print_message(f"done and verified; to undo it: kohort groups undo {path}")


def print_dry_run(options: argparse.Namespace) -> None:
    if not options.execute:
        print_message("dry run: nothing was changed; add --execute to do it")


def warn_of_changes(plan: ResetPlan) -> None:
    """A line for each offset that is not the requested one."""
    for change in plan.changes:
        if change.warning:
            warn(f"{change.partition} of group {change.group}: {change.warning}")
