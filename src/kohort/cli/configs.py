"""Describe and alter configs of topics, brokers and groups, and quotas of clients.

The options are those of kafka-configs.

`kohort configs --alter --topic orders --add-config retention.ms=1000` is
`kohort configs alter topic orders --add-config retention.ms=1000`.
"""

import argparse
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.cli import quotas
from kohort.cli.client_options import run_with_admin
from kohort.cli.name_arguments import Once
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, print_message, show
from kohort.cli.subcommands import Subcommand, Subcommands, pairs
from kohort.client.admin import Admin, ConfigEntry, ConfigResource, ResourceType
from kohort.errors import unless_error

_FLAGS: Final[Mapping[str, ResourceType]] = {"topic": "topic", "broker": "broker", "group": "group"}
_ENTITIES: Final[Mapping[str, ResourceType]] = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "broker-loggers": "broker-logger",
    "client-metrics": "client-metrics",
}
_WORDS: Final = (*_FLAGS, "user", "client", "ip")
_TYPES: Final = (*_ENTITIES, *quotas.ENTITY_TYPES)
_CLUSTER_DEFAULT: Final = "DYNAMIC_DEFAULT_BROKER_CONFIG"
_DEFAULTS: Final = ("DEFAULT_CONFIG", "STATIC_BROKER_CONFIG")
_COLUMNS: Final = ("CONFIG", "VALUE", "SOURCE")


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "resource",
        nargs="*",
        metavar="TYPE NAME",
        help=f"resource or quota entity, as type ({', '.join(_WORDS)}) and name",
    )
    for flag in _FLAGS:
        parser.add_argument(
            f"--{flag}", metavar=flag.upper(), action=Once, help=f"name or id of a {flag}"
        )
    add = parser.add_argument
    add("--entity-type", metavar="TYPE", action=Once, help=" | ".join(_TYPES))
    add("--entity-name", metavar="NAME", action=Once, help="name of the entity")
    add(
        "--entity-default",
        action="store_true",
        help="default configs of all brokers, or default quotas of users, client ids or IP "
        "addresses",
    )
    quotas.add_entity(parser)


def _take_words(options: argparse.Namespace) -> None:
    """Take `topic orders` as `--topic orders`. Raises RefusedError."""
    if not options.resource:
        return
    kind, *names = options.resource
    if kind not in _WORDS or len(names) != 1:
        raise RefusedError(
            f"{' '.join(options.resource)}: is not TYPE NAME, such as topic orders; "
            f"TYPE is {_one_of(_WORDS)}"
        )
    if getattr(options, kind) is not None:
        raise RefusedError(f"--{kind} and {kind} {names[0]}: choose one of them")
    setattr(options, kind, names[0])


def _resource(options: argparse.Namespace) -> ConfigResource:
    """Raises RefusedError."""
    resources = [
        ConfigResource(kind, getattr(options, flag))
        for flag, kind in _FLAGS.items()
        if getattr(options, flag) is not None
    ]
    if options.entity_type is not None:
        if options.entity_type not in _ENTITIES:
            raise RefusedError(f"--entity-type {options.entity_type}: is not {_one_of(_TYPES)}")
        resources.append(ConfigResource(_ENTITIES[options.entity_type], options.entity_name or ""))
    elif options.entity_name is not None or options.entity_default:
        raise RefusedError("--entity-type is missing")
    if options.entity_default and (options.entity_type != "brokers" or options.entity_name):
        raise RefusedError("--entity-default: needs --entity-type brokers and no --entity-name")
    if len(resources) != 1:
        raise RefusedError(
            "one resource is needed: as words (topic orders), or by --topic, --broker, "
            "--group, --user, --client, --ip or --entity-type"
        )
    return resources[0]


def _ensure_no_resource(options: argparse.Namespace) -> None:
    """Raises RefusedError if a resource with configs is named beside users or clients."""
    named = [flag for flag in _FLAGS if getattr(options, flag) is not None]
    if named or options.entity_type in _ENTITIES:
        raise RefusedError("choose either a topic, broker or group, or users and clients")


def _one_of(names: Iterable[str]) -> str:
    return "one of " + ", ".join(names)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    _add_resource(parser)
    parser.add_argument(
        "--all", action="store_true", help="also show configs that have their defaults"
    )


def _describe(options: argparse.Namespace) -> int:
    _take_words(options)
    if (entity := quotas.entity_of(options)) is not None:
        _ensure_no_resource(options)
        return quotas.describe(options, entity)
    resource = _resource(options)

    async def work(admin: Admin) -> int:
        configs = unless_error((await admin.describe_configs([resource]))[resource])
        of_topic = resource.type == "topic"
        entries = [
            entry
            for _, entry in sorted(configs.items())
            if options.all or (was_set_on_topic(entry) if of_topic else was_set(entry))
        ]
        rows = [(entry.name, entry.value, entry.source) for entry in entries]
        show(options.output, Table(_COLUMNS, rows), list(map(_as_json, entries)))
        return 0

    return run_with_admin(options, work)


def was_set(entry: ConfigEntry) -> bool:
    """Whether a client or command has set it, other than by the settings of a broker."""
    return entry.source not in _DEFAULTS


def was_set_on_topic(entry: ConfigEntry) -> bool:
    """`was_set` of a topic's config, which the whole cluster does not have."""
    return was_set(entry) and entry.source != _CLUSTER_DEFAULT


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


def _add_alter(parser: argparse.ArgumentParser) -> None:
    _add_resource(parser)
    add = parser.add_argument
    add(
        "--add-config",
        metavar="NAME=VALUE,…",
        action="append",
        default=[],
        help="configs to set; lists are written as [a,b]",
    )
    add(
        "--delete-config",
        metavar="NAME,…",
        action="append",
        default=[],
        help="configs to reset to their defaults",
    )


def _alter(options: argparse.Namespace) -> int:
    _take_words(options)
    entity = quotas.entity_of(options)
    resource = _resource(options) if entity is None else None
    added = pairs("--add-config", options.add_config)
    deleted = [name.strip() for names in options.delete_config for name in names.split(",")]
    if not added and not deleted:
        raise RefusedError("--add-config or --delete-config is missing")
    if resource is None:
        _ensure_no_resource(options)
        return quotas.alter(options, entity or {}, added, deleted)

    async def work(admin: Admin) -> int:
        await admin.alter_configs(resource, added, delete=deleted)
        print_message(f"altered {resource.type} {resource.name}".rstrip())
        return 0

    return run_with_admin(options, work)


SUBCOMMANDS: Final = {
    "describe": Subcommand("Show the configs or quotas that are set.", _add_describe, _describe),
    "alter": Subcommand("Set or delete configs or quotas.", _add_alter, _alter),
}

_commands = Subcommands(SUBCOMMANDS)
expand_arguments = _commands.expand_arguments
add_arguments = _commands.add_arguments
run = _commands.run
