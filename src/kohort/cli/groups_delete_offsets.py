"""Delete a group's committed offsets of topics or partitions that no member reads."""

import argparse

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.group_options import add_topic_argument, topics
from kohort.cli.name_arguments import add_name
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, show
from kohort.client.admin import Admin
from kohort.client.resets import partitions_of
from kohort.errors import KafkaError
from kohort.types import GroupId, TopicPartition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_name(parser, "--group", "GROUP", "group id")
    add_topic_argument(parser, "whose offsets to delete; repeatable")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    scope = topics(options)
    if not scope:
        raise RefusedError("--topic TOPIC[:0,1,2] is missing (repeatable)")

    async def work(admin: Admin) -> int:
        partitions = sorted(await partitions_of(admin, scope))
        outcomes = await admin.delete_offsets(GroupId(options.group), partitions)
        _show(options, outcomes)
        return FAILED if any(outcomes.values()) else 0

    return run_with_admin(options, work)


def _show(options: argparse.Namespace, outcomes: dict[TopicPartition, KafkaError | None]) -> None:
    rows = [
        (tp.topic, tp.partition, "Successful" if error is None else f"Error: {error}")
        for tp, error in sorted(outcomes.items())
    ]
    as_json = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "deleted": error is None,
            "error": error and str(error),
        }
        for tp, error in sorted(outcomes.items())
    ]
    show(options.output, Table(("TOPIC", "PARTITION", "STATUS"), rows), as_json)
