"""Quotas of users, client ids and addresses, as `kohort configs` describes and alters them.

`kohort configs alter --user alice --client etl --add-config producer_byte_rate=1000000`
"""

import argparse
from collections.abc import Collection, Mapping
from typing import Final

from kohort.cli.client_options import run_with_admin
from kohort.cli.name_arguments import Once
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, print_message, show
from kohort.client.admin import Admin, QuotaEntity, QuotaEntityType
from kohort.security.scram import BY_MECHANISM

Entity = dict[QuotaEntityType, str | None]

ENTITY_TYPES: Final[Mapping[str, QuotaEntityType]] = {
    "users": "user",
    "clients": "client-id",
    "ips": "ip",
}
_FLAGS: Final[Mapping[str, QuotaEntityType]] = {"user": "user", "client": "client-id", "ip": "ip"}
_COLUMNS: Final = ("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE")
_DEFAULT: Final = "<default>"


def add_entity(parser: argparse.ArgumentParser) -> None:
    """Options that name the entity of a quota."""
    for flag, kind in _FLAGS.items():
        parser.add_argument(
            f"--{flag}", metavar=flag.upper(), action=Once, help=f"quotas of a {kind}"
        )
        parser.add_argument(
            f"--{flag}-defaults",
            action="store_true",
            help=f"default quotas of every {kind} without its own",
        )


def entity_of(options: argparse.Namespace) -> Entity | None:
    """The entity of the options; {}: all of a type; None: the options name no entity.

    Raises RefusedError.
    """
    entity: Entity = {}
    for flag, kind in _FLAGS.items():
        name = getattr(options, flag)
        if name is not None and getattr(options, f"{flag}_defaults"):
            raise RefusedError(f"--{flag} and --{flag}-defaults: choose one of them")
        if name is not None or getattr(options, f"{flag}_defaults"):
            entity[kind] = name
    if options.entity_type not in ENTITY_TYPES:
        return entity or None
    kind = ENTITY_TYPES[options.entity_type]
    if kind in entity or (options.entity_name is not None and options.entity_default):
        raise RefusedError(f"--entity-type {options.entity_type}: is given twice")
    if options.entity_name is not None or options.entity_default:
        entity[kind] = options.entity_name
    return entity


def describe(options: argparse.Namespace, entity: Entity) -> int:
    """Show the quotas of the entity, or all."""

    async def work(admin: Admin) -> int:
        entities = await admin.describe_client_quotas(entity or None)
        quotas = [
            (dict(entity), key, value)
            for entity, values in sorted(entities.items(), key=lambda item: _names(item[0]))
            for key, value in sorted(values.items())
        ]
        rows = [
            (
                *(_format_entity(entity, kind) for kind in ("user", "client-id", "ip")),
                key,
                f"{value:.15g}",
            )
            for entity, key, value in quotas
        ]
        as_json = [
            {"entity": entity, "quota": key, "value": value} for entity, key, value in quotas
        ]
        show(options.output, Table(_COLUMNS, rows), as_json)
        return 0

    return run_with_admin(options, work)


def alter(
    options: argparse.Namespace, entity: Entity, added: Mapping[str, str], deleted: Collection[str]
) -> int:
    """Set and delete quotas of the entity. Raises RefusedError."""
    if not entity:
        raise RefusedError("a quota entity is missing: --user, --client or --ip")
    quotas = {name: _number(name, value) for name, value in added.items()}

    async def work(admin: Admin) -> int:
        await admin.alter_client_quotas(entity, quotas, delete=deleted)
        names = (f"{kind} {name or 'default'}" for kind, name in entity.items())
        print_message(f"altered quotas of {', '.join(names)}")
        return 0

    return run_with_admin(options, work)


def _number(name: str, value: str) -> float:
    if name in BY_MECHANISM:  # the value has a password, which no error shows
        raise RefusedError(f"--add-config {name}: passwords are set by `kohort users`")
    try:
        return float(value)
    except ValueError:
        raise RefusedError(f"--add-config {name}={value}: is not a number") from None


def _names(entity: QuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def _format_entity(entity: Mapping[str, str | None], kind: str) -> str:
    if kind not in entity:
        return "-"
    name = entity[kind]
    return _DEFAULT if name is None else name
