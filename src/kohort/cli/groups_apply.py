"""Execute a reviewed plan of `kohort groups reset --plan FILE`.

Refused if a group has moved since (see `kohort groups diff FILE`), unless --force.
"""

import argparse
from dataclasses import replace

from kohort.cli import plan_files, run_plan
from kohort.client.resets import now_ms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_plan.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    plan = plan_files.read(options.file)
    executed = replace(plan, executed_at_ms=now_ms())
    message = f"done and verified; to undo it: kohort groups undo {options.file}"
    return run_plan.carry_out(options, plan, executed, message)
