"""List, add and remove users with SCRAM passwords, and set their passwords.

With --data-dir, users are changed in the data directory of a stopped server, for example to create
the first user. Passwords are prompted for, or read from standard input, a file or an environment
variable.
"""

import argparse
import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from kohort.cli.client_options import run_to_exit_code, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.name_arguments import Once
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, print_message, show
from kohort.cli.subcommands import Subcommand, Subcommands
from kohort.errors import KohortError, fresh
from kohort.security.scram import BY_MECHANISM, MAX_ITERATIONS, MIN_ITERATIONS
from kohort.util.text import did_you_mean

_COLUMNS: Final = ("USER", "MECHANISM", "ITERATIONS")


class Users(Protocol):
    """The users of a cluster, or of a data directory. Its methods raise KohortError."""

    async def describe_scram_users(self) -> Mapping[str, Mapping[str, int] | KohortError]:
        """Iterations by mechanism and user."""
        ...

    async def set_scram_password(
        self, user: str, password: str, *, mechanism: str, iterations: int
    ) -> None:
        """Set the password for a mechanism."""
        ...

    async def delete_scram_credential(self, user: str, *, mechanism: str) -> None:
        """Delete the user's credential of a mechanism."""
        ...


def _run(
    options: argparse.Namespace,
    work: Callable[[Users], Awaitable[int]],
    *,
    creates_directory: bool = False,
) -> int:
    """The exit code. Raises RefusedError."""
    if options.data_dir is None:
        return run_with_admin(options, work)
    if not creates_directory and not options.data_dir.is_dir():
        raise RefusedError(f"--data-dir {options.data_dir}: does not exist")
    from kohort.cli.offline_users import OfflineUsers

    async def offline() -> int:
        with OfflineUsers.opened(options.data_dir) as users:
            return await work(users)

    return run_to_exit_code(offline())


async def _mechanisms(users: Users, user: str) -> tuple[str, ...]:
    """For which the user has a password."""
    mechanisms = (await users.describe_scram_users()).get(user, {})
    if isinstance(mechanisms, KohortError):
        raise fresh(mechanisms)
    return tuple(mechanisms)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="data directory of a stopped server, instead of --bootstrap",
    )


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="user name, without User:")
    _add_place(parser)


def _add_password(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add = parser.add_argument
    add(
        "--mechanism",
        metavar="MECHANISM",
        action="append",
        choices=tuple(BY_MECHANISM),
        help=f"{' or '.join(BY_MECHANISM)}; repeatable (default: both, or the mechanisms of the "
        "user)",
    )
    add(
        "--iterations",
        metavar="N",
        type=int,
        default=MIN_ITERATIONS,
        help=f"SCRAM iterations, {MIN_ITERATIONS} to {MAX_ITERATIONS} (default: {MIN_ITERATIONS})",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input"
    )
    source.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        action=Once,
        help="read the password from a file",
    )
    source.add_argument(
        "--password-env",
        metavar="VARIABLE",
        action=Once,
        help="read the password from an environment variable",
    )


def _password(options: argparse.Namespace) -> str:
    """The password, without the end of its line. Raises RefusedError."""
    if options.password_stdin:
        password = sys.stdin.readline()
    elif options.password_file is not None:
        password = _first_line(options.password_file)
    elif options.password_env is not None:
        if options.password_env not in os.environ:
            raise RefusedError(f"--password-env: variable {options.password_env} is not set")
        password = os.environ[options.password_env]
    else:
        password = _asked()
    password = password.rstrip("\r\n")
    if not password:
        raise RefusedError("the password is empty")
    return password


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"--password-file {path}: cannot be read: {error}") from None


def _asked() -> str:
    if not sys.stdin.isatty():
        raise RefusedError(
            "a password is needed: --password-stdin, --password-file or --password-env"
        )
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise RefusedError("the two passwords differ")
    return password


def _list(options: argparse.Namespace) -> int:
    return _run(options, lambda users: list_users(users, options.output))


async def list_users(users: Users, output: str) -> int:
    """Show all users; the exit code. Errors of single users are printed on stderr."""
    outcomes = sorted((await users.describe_scram_users()).items())
    rows = [
        (user, mechanism, str(iterations))
        for user, credentials in outcomes
        if not isinstance(credentials, KohortError)
        for mechanism, iterations in sorted(credentials.items())
    ]
    as_json = [
        {"user": user, "mechanism": mechanism, "iterations": int(iterations)}
        for user, mechanism, iterations in rows
    ]
    show(output, Table(_COLUMNS, rows), as_json)
    errors = [(user, outcome) for user, outcome in outcomes if isinstance(outcome, KohortError)]
    for user, error in errors:
        print_message(f"user {user}: {error}")
    return FAILED if errors else 0


def _add(options: argparse.Namespace) -> int:
    password = _password(options)

    async def work(users: Users) -> int:
        if await _mechanisms(users, options.name):
            raise KohortError(f"user {options.name} exists: change the password by set-password")
        await _set(users, options, password, options.mechanism or tuple(BY_MECHANISM))
        print_message(f"added user {options.name}")
        return 0

    return _run(options, work, creates_directory=True)


def _set_password(options: argparse.Namespace) -> int:
    password = _password(options)

    async def work(users: Users) -> int:
        has = await _mechanisms(users, options.name)
        if not has:
            raise await _unknown(users, options.name)
        await _set(users, options, password, options.mechanism or has)
        print_message(f"set the password of user {options.name}")
        return 0

    return _run(options, work)


async def _set(
    users: Users, options: argparse.Namespace, password: str, mechanisms: tuple[str, ...]
) -> None:
    for mechanism in mechanisms:
        await users.set_scram_password(
            options.name, password, mechanism=mechanism, iterations=options.iterations
        )


def _remove(options: argparse.Namespace) -> int:
    async def work(users: Users) -> int:
        has = await _mechanisms(users, options.name)
        if not has:
            raise await _unknown(users, options.name)
        for mechanism in has:
            await users.delete_scram_credential(options.name, mechanism=mechanism)
        print_message(f"removed user {options.name}")
        return 0

    return _run(options, work)


async def _unknown(users: Users, user: str) -> KohortError:
    hint = did_you_mean(user, sorted(await users.describe_scram_users()))
    return KohortError(f"there is no user {user}{hint}")


SUBCOMMANDS: Final = {
    "list": Subcommand("List users with passwords, and their SCRAM mechanisms.", _add_place, _list),
    "add": Subcommand("Add a user.", _add_password, _add),
    "set-password": Subcommand(
        "Set the password of a user. Open connections are kept.",
        _add_password,
        _set_password,
    ),
    "remove": Subcommand("Remove a user. Open connections are kept.", _add_name, _remove),
}

_commands = Subcommands(SUBCOMMANDS)
expand_arguments = _commands.expand_arguments
add_arguments = _commands.add_arguments
run = _commands.run
