"""List, add and remove access control lists (ACLs), in the words of Kafka's kafka-acls.

    kohort acls add --allow-principal User:alice --producer --topic orders
    kohort acls add --allow-principal User:bob --consumer --topic orders --group billing
    kohort acls list --topic orders --resource-pattern-type match
    kohort acls remove --topic orders --group billing

Without --producer, --consumer or --operation, all operations are meant. Entries with a deny
principal beat those that allow.
"""

import argparse
from collections.abc import Iterable, Iterator
from typing import Final

from kohort.cli.client_options import run_with_admin
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, show
from kohort.cli.verbs import Once, Verb, Verbs
from kohort.client.admin import Admin
from kohort.errors import KohortError
from kohort.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

_COLUMNS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "HOST", "RESOURCE", "NAME", "PATTERN")
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "user_principal": ResourceType.USER,
}
_PATTERNS: Final = {
    each.name.lower(): each
    for each in (PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY)
}


def _word(operation: AclOperation) -> str:
    """The operation as Kafka's tools write it: DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


_OPERATIONS: Final = {_word(each): each for each in AclOperation if each > AclOperation.ANY}
_PRODUCER: Final = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}


def _add_resources(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", metavar="NAME", action="append", default=[], help="a topic, or *; repeatable")
    add("--group", metavar="ID", action="append", default=[], help="a group, or *; repeatable")
    add("--transactional-id", metavar="ID", action="append", default=[], help="or *; repeatable")
    add("--user-principal", metavar="USER", action="append", default=[], help="repeatable")
    add("--cluster", action="store_true", help="the cluster itself")
    add(
        "--resource-pattern-type",
        metavar="TYPE",
        choices=tuple(_PATTERNS),
        default="literal",
        help="literal, or prefixed: the name is the beginning of names; to list and remove also "
        "match: all that applies to the name, and any (default: literal)",
    )


def _add_entries(parser: argparse.ArgumentParser) -> None:
    _add_resources(parser)
    add = parser.add_argument
    for word in ("allow", "deny"):
        add(
            f"--{word}-principal",
            metavar="PRINCIPAL",
            action="append",
            default=[],
            help="such as User:alice, or User:*; repeatable",
        )
        add(
            f"--{word}-host",
            metavar="IP",
            action="append",
            help="the address that it is about; repeatable (default: *, all)",
        )
    add(
        "--operation",
        metavar="OPERATION",
        action="append",
        type=_operation,
        default=[],
        help=f"{', '.join(_OPERATIONS)}; repeatable (default: All)",
    )
    add("--producer", action="store_true", help="what producers need on --topic")
    add("--consumer", action="store_true", help="what consumers need on --topic and --group")
    add("--idempotent", action="store_true", help="what idempotent producers need")


def _add_principals(parser: argparse.ArgumentParser) -> None:
    _add_resources(parser)
    parser.add_argument(
        "--principal", metavar="PRINCIPAL", action=Once, help="only the entries of User:NAME"
    )


def _operation(text: str) -> AclOperation:
    for word, operation in _OPERATIONS.items():
        if word.lower() == text.lower():
            return operation
    raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(_OPERATIONS)}")


def _resources(options: argparse.Namespace) -> Iterator[tuple[ResourceType, str]]:
    for option, kind in _RESOURCES.items():
        yield from ((kind, name) for name in getattr(options, option))
    if options.cluster:
        yield ResourceType.CLUSTER, CLUSTER_NAME


def _operations(
    options: argparse.Namespace, kind: ResourceType, operations: Iterable[AclOperation]
) -> tuple[AclOperation, ...]:
    """The operations on a resource of this kind."""
    if not (options.producer or options.consumer):
        return tuple(operations) or (AclOperation.ALL,)
    wanted: dict[AclOperation, None] = {}
    if options.producer:
        wanted |= dict.fromkeys(_PRODUCER.get(kind, ()))
    if options.consumer:
        wanted |= dict.fromkeys(_CONSUMER.get(kind, ()))
    return tuple(wanted)


def _bindings(options: argparse.Namespace) -> list[AclBinding]:
    """The entries to add. Raises RefusedError."""
    pattern = _PATTERNS[options.resource_pattern_type]
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise RefusedError("--resource-pattern-type of an entry is literal or prefixed")
    resources = [
        (kind, name, operation)
        for kind, name in _resources(options)
        for operation in _operations(options, kind, options.operation)
    ]
    if options.idempotent:
        resources.append((ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE))
    people = [
        (principal, host, permission)
        for permission, principals, hosts in (
            (AclPermissionType.ALLOW, options.allow_principal, options.allow_host),
            (AclPermissionType.DENY, options.deny_principal, options.deny_host),
        )
        for principal in principals
        for host in hosts or (WILDCARD,)
    ]
    if not people:
        raise RefusedError("say whom it is about, by --allow-principal or --deny-principal")
    _validate(options, resources)
    return [
        AclBinding(
            kind,
            name,
            PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern,
            principal,
            host,
            operation,
            permission,
        )
        for kind, name, operation in resources
        for principal, host, permission in people
    ]


def _validate(
    options: argparse.Namespace, resources: list[tuple[ResourceType, str, AclOperation]]
) -> None:
    if (options.producer or options.consumer) and options.operation:
        raise RefusedError("--producer and --consumer choose the operations themselves")
    if (options.producer or options.consumer) and not options.topic:
        raise RefusedError("--producer and --consumer need a --topic")
    if options.consumer and not options.group:
        raise RefusedError("--consumer needs a --group")
    if not resources:
        raise RefusedError("say what it is about: --topic, --group, --transactional-id, --cluster")


def _filters(options: argparse.Namespace) -> list[AclBindingFilter]:
    pattern = _PATTERNS[options.resource_pattern_type]
    principal = options.principal
    named = [AclBindingFilter(kind, name, pattern, principal) for kind, name in _resources(options)]
    return named or [AclBindingFilter(principal=principal)]


def _show(options: argparse.Namespace, bindings: Iterable[AclBinding]) -> None:
    rows = [
        (
            each.principal,
            each.permission_type.name.capitalize(),
            _word(each.operation),
            each.host,
            each.resource_type.name.lower(),
            each.resource_name,
            each.pattern_type.name.lower(),
        )
        for each in sorted(set(bindings))
    ]
    as_json = [dict(zip(map(str.lower, _COLUMNS), row, strict=True)) for row in rows]
    show(options.output, Table(_COLUMNS, rows), as_json)


def _list(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        found = [entry for each in _filters(options) for entry in await admin.describe_acls(each)]
        _show(options, found)
        return 0

    return run_with_admin(options, work)


def _add(options: argparse.Namespace) -> int:
    bindings = _bindings(options)

    async def work(admin: Admin) -> int:
        outcomes = await admin.create_acls(bindings)
        for error in outcomes.values():
            if error is not None:
                raise error
        _show(options, outcomes)
        return 0

    return run_with_admin(options, work)


def _remove(options: argparse.Namespace) -> int:
    filters = _filters(options)
    if filters == [AclBindingFilter()]:
        raise RefusedError("say what to remove: --principal, --topic, --group, --cluster")

    async def work(admin: Admin) -> int:
        removed: list[AclBinding] = []
        for each in await admin.delete_acls(filters):
            if isinstance(each, KohortError):
                raise each
            removed += each
        _show(options, removed)
        return 0

    return run_with_admin(options, work)


VERBS: Final = {
    "list": Verb("Show entries.", _add_principals, _list),
    "add": Verb("Add entries, and show them.", _add_entries, _add),
    "remove": Verb("Remove entries, and show them.", _add_principals, _remove),
}

_commands = Verbs(VERBS)
words = _commands.words
add_arguments = _commands.add_arguments
run = _commands.run
