"""Restore the offsets from before a reset, and delete commits that it created.

Refused if a group has moved since the reset, unless --force. `kohort groups apply` of the same file
does the reset again.
"""

import argparse
from dataclasses import replace

from kohort.cli import plan_files, run_plan
from kohort.client.resets import now_ms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_plan.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    made = plan_files.read(options.file)
    return run_plan.carry_out(
        options, made.inverse(now_ms()), replace(made, executed_at_ms=None), "undone and verified"
    )
