"""The common part of `apply` and `undo`: load a plan, dry run, force, execute and verify."""

import argparse
from pathlib import Path

from kohort.cli import plan_files
from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.output import add_output_argument, check_output, print_message
from kohort.cli.reset_tables import guarded, show_plan
from kohort.client.admin import Admin
from kohort.client.resets import ResetPlan, check, execute


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="plan file of `kohort groups reset`"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=("show the changes only, and whether they would be refused"),
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help=("execute even if offsets have changed since, or the cluster id differs"),
    )
    add_output_argument(parser)


def carry_out(options: argparse.Namespace, plan: ResetPlan, recorded: ResetPlan, done: str) -> int:
    """Execute `plan`, then keep `recorded` in the file. Raises RefusedError."""
    check_output(options)

    async def work(admin: Admin) -> int:
        if options.dry_run:
            await check(admin, plan, force=options.force)
        else:
            await execute(admin, plan, force=options.force)
            plan_files.rewrite(options.file, recorded)
        show_plan(options.output, plan)
        print_message("dry run: nothing was changed" if options.dry_run else done)
        return 0

    return run_with_admin(options, lambda admin: guarded(work(admin)))
