"""Show a cluster: its nodes with the partitions they lead, its features, topics and groups.

Kafka's kafka-cluster and kafka-features show a part of it. Works with any Kafka broker.
"""

import argparse
from collections import Counter

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.client.admin import Admin

_COLUMNS = ("NODE", "HOST", "PORT", "RACK", "CONTROLLER", "LEADS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)

    async def work(admin: Admin) -> int:
        metadata = await admin.cluster.metadata()
        groups = await admin.list_groups()
        features = dict(sorted((await admin.cluster.any_connection()).features.items()))
        partitions = [
            partition for topic in metadata.topics.values() for partition in topic.partitions
        ]
        leads = Counter(partition.leader for partition in partitions)
        rows = [
            (
                node,
                broker.host,
                broker.port,
                broker.rack,
                "yes" if node == metadata.controller_id else None,
                leads[node],
            )
            for node, broker in sorted(metadata.brokers.items())
        ]
        description = {
            "cluster_id": metadata.cluster_id,
            "controller": metadata.controller_id,
            "nodes": [
                {"node": node, "host": host, "port": port, "rack": rack, "leads": count}
                for node, host, port, rack, _, count in rows
            ],
            "features": features,
            "topics": len(metadata.topics),
            "partitions": len(partitions),
            "groups": len(groups.groups),
        }
        show(options.output, Table(_COLUMNS, rows), description)
        if options.output == "table":
            print_message(
                f"cluster {metadata.cluster_id}: topics {len(metadata.topics)}, "
                f"partitions {len(partitions)}, groups {len(groups.groups)}"
            )
            levels = ", ".join(f"{name} {level}" for name, level in features.items())
            print_message(f"features: {levels or 'none'}")
        for node, failure in groups.failures.items():
            print_message(f"broker {node} did not respond, its groups are not counted: {failure}")
        return FAILED if groups.failures else 0

    return run_with_admin(options, work)
