"""Refreshed output: `--watch` of commands, and `kohort groups watch`.

On a terminal each refresh replaces the previous one. Other outputs get a block of lines for each,
and an empty line after it.
"""

import argparse
import asyncio
import io
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from itertools import count
from typing import Final

from kohort.cli.client_options import run_with_admin
from kohort.cli.options import RefusedError
from kohort.client.admin import Admin

_HOME_AND_CLEAR: Final = "\x1b[H\x1b[2J"


def add_interval_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=float,
        default=1.0,
        help="refresh interval in seconds (default: 1)",
    )
    parser.add_argument("--count", metavar="N", type=int, help="exit after N refreshes")


def check_interval(options: argparse.Namespace) -> None:
    """Raises RefusedError."""
    if not 0 < options.interval < float("inf"):
        raise RefusedError(f"--interval {options.interval:g}: is not a number of seconds")
    if options.count is not None and options.count < 1:
        raise RefusedError(f"--count {options.count}: is not a number of refreshes")


async def refreshes(options: argparse.Namespace) -> AsyncIterator[None]:
    """Iterate once for each refresh, at the interval of `options`."""
    for number in count(1):
        yield
        if number == options.count:
            return
        await asyncio.sleep(options.interval)


def add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="refresh the output until Ctrl-C")
    add_interval_arguments(parser)


def run_watched(options: argparse.Namespace, work: Callable[[Admin], Awaitable[int]]) -> int:
    """As `run_with_admin`; --watch runs `work` for each refresh, and returns the last exit code."""
    check_interval(options)
    if not options.watch:
        return run_with_admin(options, work)
    return run_with_admin(options, lambda admin: _watch(admin, options, work))


async def _watch(
    admin: Admin, options: argparse.Namespace, work: Callable[[Admin], Awaitable[int]]
) -> int:
    out = sys.stdout
    is_terminal = out.isatty()
    code = 0
    async for _ in refreshes(options):
        screen = _Screen(is_terminal)
        with redirect_stdout(screen), redirect_stderr(screen if is_terminal else sys.stderr):
            code = await work(admin)
        text = screen.getvalue()
        print(f"{_HOME_AND_CLEAR}{text}" if is_terminal else text, file=out, flush=True)
    return code


class _Screen(io.StringIO):
    """Collects the output of a refresh, to print it at once."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal
