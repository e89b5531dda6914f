"""List, create, describe, alter and delete topics, with the options of kafka-topics.

`kohort topics --create --topic orders` is `kohort topics create orders`. Use `kohort
configs alter` for topic configs.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kohort.cli import topics_describe
from kohort.cli.client_options import run_with_admin
from kohort.cli.name_arguments import add_name, add_names
from kohort.cli.output import Table, print_message, show
from kohort.cli.subcommands import Subcommand, Subcommands, pairs
from kohort.cli.watch import add_watch_arguments, run_watched
from kohort.client.admin import Admin
from kohort.client.cluster import TopicMetadata
from kohort.errors import ErrorCode, KafkaError


def _add_topics(parser: argparse.ArgumentParser) -> None:
    add_names(parser, "--topic", "TOPIC", "topic name", required=True)


def _add_count(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument(
        "--partitions", metavar="N", type=int, required=required, help="number of partitions"
    )


# --- list


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exclude-internal", action="store_true", help="omit internal topics")
    add_watch_arguments(parser)


def _list(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        outcomes = (await admin.describe_topics()).values()
        names = sorted(
            topic.name
            for topic in outcomes
            if isinstance(topic, TopicMetadata)
            and not (options.exclude_internal and topic.is_internal)
        )
        show(options.output, Table(("TOPIC",), [(name,) for name in names]), names)
        return 0

    return run_watched(options, work)


# --- create, alter, delete


def _add_create(parser: argparse.ArgumentParser) -> None:
    _add_topics(parser)
    _add_count(parser)
    add = parser.add_argument
    add(
        "--replication-factor",
        metavar="N",
        type=int,
        help="number of replicas (default: the broker's)",
    )
    add(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="topic config; repeatable",
    )
    add("--if-not-exists", action="store_true", help="do nothing if the topic exists")


def _create(options: argparse.Namespace) -> int:
    configs = pairs("--config", options.config)

    async def work(admin: Admin) -> int:
        for topic in dict.fromkeys(options.topic):
            with _accepted(ErrorCode.topic_already_exists, options.if_not_exists):
                await admin.create_topic(
                    topic,
                    partitions=-1 if options.partitions is None else options.partitions,
                    replication_factor=options.replication_factor or -1,
                    configs=configs,
                )
                print_message(f"created topic {topic}")
        return 0

    return run_with_admin(options, work)


def _add_if_exists(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if-exists", action="store_true", help="do nothing if the topic does not exist"
    )


def _add_alter(parser: argparse.ArgumentParser) -> None:
    add_name(parser, "--topic", "TOPIC", "topic name")
    _add_count(parser, required=True)
    _add_if_exists(parser)


def _alter(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        with _accepted(ErrorCode.unknown_topic_or_partition, options.if_exists):
            await admin.create_partitions(options.topic, options.partitions)
            print_message(f"topic {options.topic} has {options.partitions} partitions")
        return 0

    return run_with_admin(options, work)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    _add_topics(parser)
    _add_if_exists(parser)


def _delete(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        for topic in dict.fromkeys(options.topic):
            with _accepted(ErrorCode.unknown_topic_or_partition, options.if_exists):
                await admin.delete_topic(topic)
                print_message(f"deleted topic {topic}")
        return 0

    return run_with_admin(options, work)


@contextmanager
def _accepted(code: ErrorCode, on_request: bool) -> Iterator[None]:
    """Ignore the error if the options say so."""
    try:
        yield
    except KafkaError as error:
        if not on_request or error.code is not code:
            raise


# --- describe


def _add_describe(parser: argparse.ArgumentParser) -> None:
    add_names(parser, "--topic", "TOPIC", "topic name (default: all topics)")
    _add_if_exists(parser)
    add_watch_arguments(parser)


SUBCOMMANDS: Final = {
    "list": Subcommand("List topics, by name.", _add_list, _list),
    "create": Subcommand("Create a topic.", _add_create, _create),
    "describe": Subcommand(
        "Show ids and configs of topics, and the leader, offsets and size of each partition.",
        _add_describe,
        topics_describe.run,
    ),
    "alter": Subcommand("Increase the number of partitions of a topic.", _add_alter, _alter),
    "delete": Subcommand("Delete a topic and its records.", _add_delete, _delete),
}

_commands = Subcommands(SUBCOMMANDS)
expand_arguments = _commands.expand_arguments
add_arguments = _commands.add_arguments
run = _commands.run
