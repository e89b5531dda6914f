"""Options of `kohort acls`, in the words of kafka-acls, as entries to add and as filters."""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

from kohort.cli.name_arguments import Once
from kohort.cli.options import RefusedError
from kohort.security.acl_hosts import WILDCARD
from kohort.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "user_principal": ResourceType.USER,
}
_PATTERNS: Final = {
    pattern_type.name.lower(): pattern_type
    for pattern_type in (
        PatternType.LITERAL,
        PatternType.PREFIXED,
        PatternType.MATCH,
        PatternType.ANY,
    )
}


def word(operation: AclOperation) -> str:
    """The operation as Kafka's tools write it: DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


_OPERATIONS: Final = {
    word(operation): operation for operation in AclOperation if operation > AclOperation.ANY
}
_ROLES: Final = {
    "producer": {
        ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    },
    "consumer": {
        ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
        ResourceType.GROUP: (AclOperation.READ,),
    },
}
"""Operations that producers and consumers need, by kind of resource."""


def add_entries(parser: argparse.ArgumentParser) -> None:
    """Options that name entries."""
    add = parser.add_argument
    add(
        "--topic",
        metavar="NAME",
        action="append",
        default=[],
        help="topic name, or * for all topics; repeatable",
    )
    add(
        "--group",
        metavar="ID",
        action="append",
        default=[],
        help="group id, or * for all groups; repeatable",
    )
    add(
        "--transactional-id",
        metavar="ID",
        action="append",
        default=[],
        help="name, or * for all; repeatable",
    )
    add(
        "--user-principal",
        metavar="USER",
        action="append",
        default=[],
        help="name, or * for all; repeatable",
    )
    add("--cluster", action="store_true", help="the cluster resource")
    add(
        "--resource-pattern-type",
        metavar="TYPE",
        choices=tuple(_PATTERNS),
        default="literal",
        help="pattern type: literal, or prefixed for all names with this prefix; list and remove "
        "also accept match (all patterns that match the name) and any (default: literal)",
    )
    for permission in ("allow", "deny"):
        add(
            f"--{permission}-principal",
            metavar="PRINCIPAL",
            action="append",
            default=[],
            help="principal, as User:alice, or User:* for all users; repeatable",
        )
        add(
            f"--{permission}-host",
            metavar="IP",
            action="append",
            help="IP address of the clients; repeatable (default: *, all addresses)",
        )
    add(
        "--operation",
        metavar="OPERATION",
        action="append",
        type=_operation,
        default=[],
        help=f"{', '.join(_OPERATIONS)}; repeatable (default: All)",
    )
    add("--producer", action="store_true", help="the operations that a producer needs on --topic")
    add(
        "--consumer",
        action="store_true",
        help="the operations that a consumer needs on --topic and --group",
    )
    add(
        "--idempotent",
        action="store_true",
        help="the operation that an idempotent producer needs on the cluster",
    )


def add_chosen(parser: argparse.ArgumentParser) -> None:
    """Options that choose entries."""
    add_entries(parser)
    parser.add_argument(
        "--principal",
        metavar="PRINCIPAL",
        action=Once,
        help="only ACLs of this principal, with any host, permission and operation",
    )


def _operation(text: str) -> AclOperation:
    for name, operation in _OPERATIONS.items():
        if name.lower() == text.lower():
            return operation
    raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(_OPERATIONS)}")


def _resources(options: argparse.Namespace) -> Iterator[tuple[ResourceType, str]]:
    for option, kind in _RESOURCES.items():
        yield from ((kind, name) for name in getattr(options, option))
    if options.cluster:
        yield ResourceType.CLUSTER, CLUSTER_NAME


def _operations(
    options: argparse.Namespace, kind: ResourceType, otherwise: AclOperation
) -> tuple[AclOperation, ...]:
    """The operations of the options on a resource of this kind; `otherwise` without an option.

    Raises RefusedError for a kind that --producer and --consumer do not use.
    """
    roles = _roles(options)
    if not roles:
        return tuple(options.operation) or (otherwise,)
    operations = dict.fromkeys(
        operation for role in roles for operation in _ROLES[role].get(kind, ())
    )
    if not operations:
        raise RefusedError(
            f"{_flag(kind)} has no effect with --{' and --'.join(roles)}: leave it out"
        )
    return tuple(operations)


def _roles(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(role for role in _ROLES if getattr(options, role))


def _flag(kind: ResourceType) -> str:
    names = (option for option, resource_type in _RESOURCES.items() if resource_type is kind)
    return "--" + next(names, "cluster").replace("_", "-")


def _targets(
    options: argparse.Namespace, otherwise: AclOperation
) -> list[tuple[ResourceType, str, AclOperation]]:
    """Resources and the operations on them. Raises RefusedError."""
    if roles := _roles(options):
        if options.operation:
            raise RefusedError("--producer and --consumer choose the operations themselves")
        if not options.topic:
            raise RefusedError("--producer and --consumer need a --topic")
        if "consumer" in roles and not options.group:
            raise RefusedError("--consumer needs a --group")
    targets = [
        (kind, name, operation)
        for kind, name in _resources(options)
        for operation in _operations(options, kind, otherwise)
    ]
    if options.idempotent:
        targets.append((ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE))
    return targets


class _Principal(NamedTuple):
    """The principal, host and permission of an entry."""

    principal: str | None
    host: str | None
    permission: AclPermissionType


def _principals(options: argparse.Namespace) -> list[_Principal]:
    """The principals of --allow-principal and --deny-principal. Raises RefusedError."""
    selectors = []
    for permission in (AclPermissionType.ALLOW, AclPermissionType.DENY):
        name = permission.name.lower()
        principals = getattr(options, f"{name}_principal")
        hosts = getattr(options, f"{name}_host")
        if hosts and not principals:
            raise RefusedError(f"--{name}-host needs a --{name}-principal")
        selectors += [
            _Principal(principal, host, permission)
            for principal in principals
            for host in hosts or (WILDCARD,)
        ]
    return selectors


def _pattern(options: argparse.Namespace, kind: ResourceType) -> PatternType:
    """The pattern type of the option; LITERAL for the cluster, which has one name."""
    if kind is ResourceType.CLUSTER:
        return PatternType.LITERAL
    return _PATTERNS[options.resource_pattern_type]


def bindings_of(options: argparse.Namespace) -> list[AclBinding]:
    """The entries to add. Raises RefusedError."""
    if _PATTERNS[options.resource_pattern_type] not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise RefusedError("--resource-pattern-type of an entry is literal or prefixed")
    principals = _principals(options)
    if not principals:
        raise RefusedError("a principal is missing: --allow-principal or --deny-principal")
    targets = _targets(options, AclOperation.ALL)
    if not targets:
        raise RefusedError(
            "a resource is missing: --topic, --group, --transactional-id or --cluster"
        )
    return [
        AclBinding(
            kind, name, _pattern(options, kind), selector.principal or "",
            selector.host or WILDCARD, operation, selector.permission,
        )
        for kind, name, operation in targets
        for selector in principals
    ]  # fmt: skip


def filters_of(options: argparse.Namespace) -> list[AclBindingFilter]:
    """Filters of the entries to list or remove; without an option, a field matches anything.

    With --allow-principal or --deny-principal they match the entries that `add` creates with the
    same options: of all hosts and the operation All by default. Raises RefusedError.
    """
    principals = _principals(options)
    if principals and options.principal is not None:
        raise RefusedError("choose --principal, or --allow-principal and --deny-principal")
    otherwise = AclOperation.ALL if principals else AclOperation.ANY
    about = [
        AclBindingFilter(kind, name, _pattern(options, kind), operation=operation)
        for kind, name, operation in _targets(options, otherwise)
    ] or [AclBindingFilter(operation=operation) for operation in options.operation or (otherwise,)]
    anybody = _Principal(options.principal, None, AclPermissionType.ANY)
    return [
        entry_filter._replace(
            principal=principal.principal, host=principal.host, permission_type=principal.permission
        )
        for entry_filter in about
        for principal in principals or (anybody,)
    ]
