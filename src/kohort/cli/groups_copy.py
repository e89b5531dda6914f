"""Copy the committed offsets of a group to another one, which has no members.

`kohort groups copy billing billing-2` is `kohort groups reset billing-2 --from-group billing
--all-topics`: a dry run unless --execute is given, with a plan to undo it.
"""

import argparse

from kohort.cli import groups_reset
from kohort.cli.client_options import add_client_arguments
from kohort.cli.group_options import add_topic_argument
from kohort.cli.output import add_output_argument
from kohort.cli.reset_options import FLAGS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("from_group", metavar="FROM", help="source group")
    parser.add_argument("to", metavar="TO", help="target group")
    add_topic_argument(parser, "only a topic, or some of its partitions; repeatable")
    groups_reset.add_execution_arguments(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    unset = dict.fromkeys(FLAGS) | vars(options)
    return groups_reset.run(
        argparse.Namespace(
            **unset, group=[options.to], all_groups=False, all_topics=not options.topic
        )
    )
