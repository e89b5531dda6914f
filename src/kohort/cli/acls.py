"""List, add and remove access control lists (ACLs), in the words of Kafka's kafka-acls.

    kohort acls add --allow-principal User:alice --producer --topic orders
    kohort acls add --allow-principal User:bob --consumer --topic orders --group billing
    kohort acls list --topic orders --resource-pattern-type match
    kohort acls remove --topic orders --group billing
    kohort acls remove --allow-principal User:alice --producer --topic orders --force

The default operation is All. ACLs with --deny-principal override those with --allow-principal. With
one of these options, list and remove select the ACLs that add creates with the same options.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import Final

from kohort.cli.acl_options import add_chosen, add_entries, bindings_of, filters_of, word
from kohort.cli.client_options import run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, print_message, show
from kohort.cli.subcommands import Subcommand, Subcommands
from kohort.client.admin import Admin
from kohort.errors import KohortError, fresh
from kohort.security.acls import AclBinding, AclBindingFilter

_COLUMNS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "HOST", "RESOURCE", "NAME", "PATTERN")


def _rows(bindings: Iterable[AclBinding]) -> list[tuple[str, ...]]:
    return [
        (
            binding.principal,
            binding.permission_type.name.capitalize(),
            word(binding.operation),
            binding.host,
            binding.resource_type.name.lower(),
            binding.resource_name,
            binding.pattern_type.name.lower(),
        )
        for binding in sorted(set(bindings))
    ]


def _show(options: argparse.Namespace, bindings: Iterable[AclBinding]) -> None:
    rows = _rows(bindings)
    as_json = [dict(zip(map(str.lower, _COLUMNS), row, strict=True)) for row in rows]
    show(options.output, Table(_COLUMNS, rows), as_json)


def _list(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        entries = [
            entry
            for acl_filter in filters_of(options)
            for entry in await admin.describe_acls(acl_filter)
        ]
        _show(options, entries)
        return 0

    return run_with_admin(options, work)


def _add(options: argparse.Namespace) -> int:
    bindings = bindings_of(options)

    async def work(admin: Admin) -> int:
        outcomes = await admin.create_acls(bindings)
        for error in outcomes.values():
            if error is not None:
                raise fresh(error)
        _show(options, outcomes)
        return 0

    return run_with_admin(options, work)


def _add_removed(parser: argparse.ArgumentParser) -> None:
    add_chosen(parser)
    parser.add_argument("--force", action="store_true", help="do not ask for confirmation")


def _remove(options: argparse.Namespace) -> int:
    filters = filters_of(options)
    if filters == [AclBindingFilter()]:
        raise RefusedError("a filter is missing: --principal, --topic, --group or --cluster")
    if not options.force and (code := _confirmed(options, filters)):
        return code

    async def work(admin: Admin) -> int:
        removed: list[AclBinding] = []
        for outcome in await admin.delete_acls(filters):
            if isinstance(outcome, KohortError):
                raise fresh(outcome)
            removed += outcome
        _show(options, removed)
        return 0

    return run_with_admin(options, work)


def _confirmed(options: argparse.Namespace, filters: list[AclBindingFilter]) -> int:
    """Ask whether to remove the entries; an exit code other than 0 if not."""
    selected: list[AclBinding] = []

    async def list_entries(admin: Admin) -> int:
        for entry_filter in filters:
            selected.extend(await admin.describe_acls(entry_filter))
        return 0

    # The confirmation is read outside of the event loop, which Ctrl-C would not end.
    if (code := run_with_admin(options, list_entries)) or not selected:
        return code
    for row in _rows(selected):
        print_message("  ".join(row))
    print("kohort: remove these ACLs? (y/n) ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return 0
    print_message("nothing was removed; --force skips the confirmation")
    return FAILED


SUBCOMMANDS: Final = {
    "list": Subcommand("List ACLs.", add_chosen, _list),
    "add": Subcommand("Add ACLs and list them.", add_entries, _add),
    "remove": Subcommand("Remove ACLs after confirmation, and list them.", _add_removed, _remove),
}

_commands = Subcommands(SUBCOMMANDS)
expand_arguments = _commands.expand_arguments
add_arguments = _commands.add_arguments
run = _commands.run
