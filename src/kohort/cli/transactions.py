"""List, describe and abort transactions, with the options of kafka-transactions.

`kohort transactions --describe --transactional-id shop` is
`kohort transactions describe shop`.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Final

from kohort.cli.client_options import run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.name_arguments import Once, add_name
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, print_message, show
from kohort.cli.subcommands import Subcommand, Subcommands
from kohort.client.admin import Admin, HangingTransaction, ProducerState, TransactionDescription
from kohort.client.cluster import TopicMetadata
from kohort.errors import KohortError, unless_error
from kohort.types import TopicPartition

_MINUTE_MS: Final = 60_000
_DEFAULT_MINUTES: Final = 15
"""The brokers' default of transaction.max.timeout.ms."""


def _add_transactional_id(parser: argparse.ArgumentParser) -> None:
    add_name(parser, "--transactional-id", "ID", "transactional id")


def _add_partition(parser: argparse.ArgumentParser) -> None:
    add_name(parser, "--topic", "TOPIC", "topic name")
    parser.add_argument(
        "--partition", metavar="N", type=int, required=True, help="partition number"
    )


def _partition(options: argparse.Namespace) -> TopicPartition:
    return TopicPartition(options.topic, options.partition)


# --- list


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration-filter",
        metavar="MS",
        type=int,
        default=-1,
        help="list only transactions that have been open for longer",
    )
    parser.add_argument(
        "--transactional-id-pattern",
        metavar="REGEX",
        default="",
        help="list only ids that match this Java regular expression entirely",
    )


def _list(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        listed = await admin.list_transactions(
            duration_ms=options.duration_filter, pattern=options.transactional_id_pattern
        )
        columns = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
        rows = [
            (
                transaction.transactional_id,
                transaction.coordinator,
                transaction.producer_id,
                transaction.state,
            )
            for transaction in listed.transactions
        ]
        names = ("transactional_id", "coordinator", "producer_id", "state")
        as_json = [dict(zip(names, row, strict=True)) for row in rows]
        show(options.output, Table(columns, rows), as_json)
        for node, failure in listed.failures.items():
            print_message(f"broker {node} did not respond, its ids are missing here: {failure}")
        return FAILED if listed.failures else 0

    return run_with_admin(options, work)


# --- describe


def _describe(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        name = options.transactional_id
        description = unless_error((await admin.describe_transactions([name]))[name])
        assert isinstance(description, TransactionDescription)
        as_json: dict[str, object] = {
            "coordinator": description.coordinator,
            "transactional_id": name,
            "producer_id": description.producer_id,
            "producer_epoch": description.producer_epoch,
            "state": description.state,
            "timeout_ms": description.timeout_ms,
            "start_ms": description.start_ms,
            "duration_ms": None
            if description.start_ms is None
            else _now_ms() - description.start_ms,
            "partitions": [str(tp) for tp in sorted(description.partitions)],
        }
        row = [*as_json.values()]
        row[-1] = ",".join(map(str, sorted(description.partitions)))
        show(options.output, Table(_DESCRIBED, [row]), as_json)
        return 0

    return run_with_admin(options, work)


_DESCRIBED: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)


# --- describe-producers


def _describe_producers(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        producers = await _producers(admin, _partition(options))
        rows = [
            (
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.transaction_start_offset,
            )
            for producer in producers
        ]
        columns = (
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        )
        show(
            options.output,
            Table(columns, rows),
            [_producer_json(producer) for producer in producers],
        )
        return 0

    return run_with_admin(options, work)


async def _producers(admin: Admin, tp: TopicPartition) -> tuple[ProducerState, ...]:
    """The producers that the partition's leader remembers. Raises KohortError.

    The leader of a topic that does not exist would be waited for until the timeout.
    """
    unless_error((await admin.describe_topics([tp.topic]))[tp.topic])
    producers = unless_error((await admin.describe_producers([tp]))[tp])
    assert isinstance(producers, tuple)
    return producers


def _producer_json(producer: ProducerState) -> dict[str, object]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "transaction_start_offset": producer.transaction_start_offset,
    }


# --- abort, force-terminate


def _add_abort(parser: argparse.ArgumentParser) -> None:
    _add_partition(parser)
    add = parser.add_argument
    add("--start-offset", metavar="OFFSET", type=int, help="first offset of the transaction")
    add("--producer-id", metavar="ID", type=int, help="producer id, instead of --start-offset")
    add("--producer-epoch", metavar="N", type=int, help="needs --producer-id")
    add("--coordinator-epoch", metavar="N", type=int, help="needs --producer-id")


def _abort(options: argparse.Namespace) -> int:
    producer_fields = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    if (options.start_offset is None) == (None in producer_fields):
        raise RefusedError(
            "abort needs either --start-offset, or --producer-id, --producer-epoch and "
            "--coordinator-epoch, as find-hanging shows them"
        )

    async def work(admin: Admin) -> int:
        tp = _partition(options)
        producer_id, epoch, coordinator_epoch = producer_fields
        if options.start_offset is not None:
            producer = await _at(admin, tp, options.start_offset)
            producer_id, epoch = producer.producer_id, producer.producer_epoch
            coordinator_epoch = producer.coordinator_epoch
        await admin.abort_transaction(
            tp,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )
        print_message(f"aborted the transaction of producer {producer_id} in {tp}")
        return 0

    return run_with_admin(options, work)


async def _at(admin: Admin, tp: TopicPartition, offset: int) -> ProducerState:
    for producer in await _producers(admin, tp):
        if producer.transaction_start_offset == offset:
            return producer
    raise KohortError(f"{tp} has no open transaction that begins at offset {offset}")


def _force_terminate(options: argparse.Namespace) -> int:
    async def work(admin: Admin) -> int:
        name = options.transactional_id
        unless_error((await admin.describe_transactions([name]))[name])  # not a new one
        unless_error((await admin.fence_producers([name]))[name])
        print_message(f"the producer of {name} is fenced, and its transaction aborted")
        return 0

    return run_with_admin(options, work)


# --- find-hanging


def _add_find_hanging(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--broker-id", metavar="ID", type=int, help="search only partitions that this broker leads")
    add("--topic", metavar="TOPIC", action=Once, help="search only this topic")
    add("--partition", metavar="N", type=int, help="search only this partition of --topic")
    add(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=int,
        default=_DEFAULT_MINUTES,
        help="minimum age of a hanging transaction: transaction.max.timeout.ms of the brokers "
        f"(default: {_DEFAULT_MINUTES})",
    )


def _find_hanging(options: argparse.Namespace) -> int:
    if options.topic is None and options.broker_id is None:
        raise RefusedError("find-hanging needs --broker-id or --topic")
    if options.partition is not None and options.topic is None:
        raise RefusedError("--partition needs --topic")

    async def work(admin: Admin) -> int:
        hanging = await admin.find_hanging_transactions(
            await _searched(admin, options),
            max_transaction_timeout_ms=options.max_transaction_timeout * _MINUTE_MS,
        )
        show(
            options.output,
            _hanging_table(hanging),
            [_hanging_json(transaction) for transaction in hanging],
        )
        return 0

    return run_with_admin(options, work)


async def _searched(admin: Admin, options: argparse.Namespace) -> list[TopicPartition]:
    outcomes = await admin.describe_topics(None if options.topic is None else [options.topic])
    topics = [unless_error(outcome) for outcome in outcomes.values()]
    return [
        TopicPartition(topic.name, partition.index)
        for topic in topics
        if isinstance(topic, TopicMetadata)
        for partition in topic.partitions
        if options.broker_id in (None, partition.leader)
        and options.partition in (None, partition.index)
    ]


def _hanging_table(hanging: Sequence[HangingTransaction]) -> Table:
    columns = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = [
        (
            transaction.partition.topic,
            transaction.partition.partition,
            transaction.producer.producer_id,
            transaction.producer.producer_epoch,
            transaction.producer.coordinator_epoch,
            transaction.producer.transaction_start_offset,
            transaction.producer.last_timestamp,
            (_now_ms() - transaction.producer.last_timestamp) // _MINUTE_MS,
        )
        for transaction in hanging
    ]
    return Table(columns, rows)


def _hanging_json(transaction: HangingTransaction) -> dict[str, object]:
    topic, partition = transaction.partition
    return {"topic": topic, "partition": partition, **_producer_json(transaction.producer)}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


SUBCOMMANDS: Final = {
    "list": Subcommand("List transactional ids, by name.", _add_list, _list),
    "describe": Subcommand("Show a transactional id.", _add_transactional_id, _describe),
    "describe-producers": Subcommand(
        "Show the active producers of a partition.", _add_partition, _describe_producers
    ),
    "abort": Subcommand("Abort a hanging transaction in one partition.", _add_abort, _abort),
    "force-terminate": Subcommand(
        "Fence the producer of a transactional id, and abort its transaction.",
        _add_transactional_id,
        _force_terminate,
    ),
    "find-hanging": Subcommand(
        "Find open transactions that no coordinator will end.", _add_find_hanging, _find_hanging
    ),
}

_commands = Subcommands(SUBCOMMANDS)
expand_arguments = _commands.expand_arguments
add_arguments = _commands.add_arguments
run = _commands.run
