"""What happens in each recorded log. `stage.compact` is where the cleaner runs."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from history.recording.broker import RETENTION_MS
from history.recording.stage import Stage
from history.recording.transactional import SteppingProducer, TransactionalMember
from interop.processes import PATIENCE_S
from kohort_conformance.catalogue import all_scenarios
from kohort_conformance.stage import Stage as RequestStage

Scenario: TypeAlias = Callable[[Stage], None]
STATIC: Final = {"session": "40000"}
"""A static member is back before its session ends, on a slow machine, too."""


def classic(stage: Stage) -> None:
    """Classic groups: eager, cooperative, static members, a member out of its poll loop, crashes
    and a restart of the broker.
    """
    for topic in ("orders", "payments", "clicks", "views"):
        stage.topic(topic)
    _join(stage, "eager", "orders", "java", assignor="range")
    _join(stage, "cooperative", "payments", "kohort")
    _join(stage, "static", "clicks", "confluent-kafka", instance="till-1", **STATIC)
    _join(stage, "stalled", "views", "confluent-kafka", assignor="range")
    for group, first in (
        ("eager", "java"),
        ("cooperative", "kohort"),
        ("static", "confluent-kafka"),
        ("stalled", "confluent-kafka"),
    ):
        stage.await_shared(f"{group}-{first}")
    stage.snapshot("one member in each group")

    _join(stage, "eager", "orders", "confluent-kafka", assignor="range")
    _join(stage, "cooperative", "payments", "franz-go")
    _join(stage, "static", "clicks", "java", instance="till-2", **STATIC)
    stage.await_shared("eager-java", "eager-confluent-kafka")
    stage.await_shared("cooperative-kohort", "cooperative-franz-go")
    stage.await_shared("static-confluent-kafka", "static-java")
    _join(stage, "eager", "orders", "kohort", assignor="range")
    _join(stage, "cooperative", "payments", "java")
    _join(
        *(stage, "stalled", "views", "java"),
        assignor="range",
        poll_interval="15000",
        stall_after="25",
        stall="22000",
    )
    stage.await_shared("eager-java", "eager-confluent-kafka", "eager-kohort")
    stage.await_shared("cooperative-kohort", "cooperative-franz-go", "cooperative-java")
    stage.await_shared("stalled-confluent-kafka", "stalled-java")
    stage.snapshot("all have joined")

    stage.leave("eager-kohort")
    stage.await_shared("eager-java", "eager-confluent-kafka")
    stage.kill("eager-confluent-kafka")
    stage.kill("cooperative-kohort")
    _restart_static(stage, "confluent-kafka", "till-1")
    stage.await_shared("eager-java")
    stage.await_shared("cooperative-franz-go", "cooperative-java")
    stage.await_shared("static-confluent-kafka-again", "static-java")
    stage.await_owned_again("stalled-java")
    stage.await_shared("stalled-confluent-kafka", "stalled-java")
    stage.snapshot("some have left, crashed, been replaced and out of their poll loop")

    stage.broker.restart()
    stage.note("broker", "", "did", what="restarted")
    stage.await_commits("eager-java", "cooperative-java", "static-java", "stalled-java", count=8)
    stage.snapshot("the broker has restarted")
    stage.compact()

    _join(stage, "eager", "orders", "franz-go", assignor="range")
    stage.leave("cooperative-java")
    stage.kill("static-java")
    stage.await_shared("eager-java", "eager-franz-go")
    stage.await_shared("cooperative-franz-go")
    stage.await_shared("static-confluent-kafka-again")
    stage.snapshot("more changes after compaction")
    stage.leave("eager-java")
    stage.await_shared("eager-franz-go")
    stage.leave(
        *("eager-franz-go", "cooperative-franz-go", "stalled-java", "stalled-confluent-kafka")
    )
    stage.snapshot("all but a static member have left")


def consumer(stage: Stage) -> None:
    """Consumer groups (KIP-848), static members among them, and conversions in both directions."""
    for topic in ("trips", "rides", "stays"):
        stage.topic(topic)
    _join(stage, "new", "trips", "java", protocol="consumer")
    _join(stage, "converted", "rides", "confluent-kafka", assignor="range")
    _join(stage, "resident", "stays", "confluent-kafka", protocol="consumer", instance="bed-1")
    stage.await_shared("new-java")
    stage.await_shared("converted-confluent-kafka")
    stage.await_shared("resident-confluent-kafka")
    stage.snapshot("one member in each group")

    _join(stage, "new", "trips", "kohort", protocol="consumer")
    _join(stage, "resident", "stays", "java", protocol="consumer", instance="bed-2")
    stage.await_shared("new-java", "new-kohort")
    _join(stage, "new", "trips", "confluent-kafka", protocol="consumer")
    stage.await_shared("new-java", "new-kohort", "new-confluent-kafka")
    stage.await_shared("resident-confluent-kafka", "resident-java")
    _join(stage, "converted", "rides", "java", protocol="consumer")
    stage.await_shared("converted-confluent-kafka", "converted-java")
    stage.snapshot("a consumer has joined classic members")

    stage.kill("new-kohort")
    stage.leave("converted-confluent-kafka")
    stage.leave("resident-confluent-kafka")  # its instance is away
    stage.member(
        *("confluent-kafka", "resident-confluent-kafka-again", "resident", "stays"),
        protocol="consumer",
        instance="bed-1",
    )
    stage.await_shared("new-java", "new-confluent-kafka")
    stage.await_shared("converted-java")
    stage.await_shared("resident-confluent-kafka-again", "resident-java")
    stage.snapshot("only consumers are left, one has crashed")

    stage.broker.restart()
    stage.note("broker", "", "did", what="restarted")
    stage.await_commits("new-java", "converted-java", "resident-java", count=8)
    stage.snapshot("the broker has restarted")
    stage.compact()

    stage.member("kohort", "converted-kohort", "converted", "rides", assignor="range")
    stage.await_shared("converted-java", "converted-kohort")
    stage.leave("converted-java")
    stage.await_shared("converted-kohort")
    stage.snapshot("the last consumer has left classic members")
    stage.leave("new-java")
    stage.kill("resident-java")
    stage.await_shared("new-confluent-kafka")
    stage.await_shared("resident-confluent-kafka-again")
    stage.compact()
    stage.leave("new-confluent-kafka", "converted-kohort")
    stage.snapshot("all but a static member have left")


def offsets(stage: Stage) -> None:
    """Transactions, resets, deletions of offsets, groups and topics, and expiry."""
    for topic in ("orders", "news", "ledger", "booked"):
        stage.topic(topic)
    stage.topic("output", 1)
    stage.drop_topic("output")
    _join(stage, "billing", "orders", "franz-go", assignor="range")
    _join(stage, "readers", "news", "confluent-kafka", assignor="range")
    first = TransactionalMember(stage, "ledger-first", "ledger", "ledger", "output")
    _commit(stage, "expiring", "orders", 3, 4)
    _commit(stage, "deleted", "orders", 1, 2)
    _commit(stage, "shrinking", "orders", 5, 6)
    _commit(stage, "shrinking", "news", 7, 8)
    stage.await_shared("billing-franz-go")
    stage.await_shared("readers-confluent-kafka")
    stage.await_shared("ledger-first")
    stage.snapshot("members commit, and simple consumers")

    stage.groups_tool("shrinking", "--delete-offsets", "--topic", "news:0")
    stage.groups_tool("deleted", "--delete")
    _transactions(stage)
    second = TransactionalMember(stage, "ledger-second", "ledger", "ledger", "output")
    stage.await_shared("ledger-first", "ledger-second")
    stage.snapshot("transactions have ended")

    stage.leave("billing-franz-go")
    reset = ("--reset-offsets", "--topic", "orders", "--execute")
    stage.groups_tool("billing", *reset, "--to-earliest")
    stage.snapshot("reset to the earliest")
    stage.groups_tool("billing", *reset, "--shift-by", "2")
    stage.snapshot("reset again")
    stage.compact()

    _join(stage, "billing", "orders", "java", assignor="range")
    stage.await_shared("billing-java")
    first.leave()
    stage.await_shared("ledger-second")
    stage.leave("readers-confluent-kafka")
    stage.drop_topic("news")
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    admin.delete_topics(["news"])["news"].result(PATIENCE_S)
    stage.note("news", "readers", "did", what="topic deleted")
    stage.snapshot("a topic is deleted")
    second.leave()
    stage.leave("billing-java")
    left = time.monotonic()
    stage.snapshot("all have left")
    stage.compact()
    while time.monotonic() - left < RETENTION_MS / 1000 + 35:
        time.sleep(1)
    stage.snapshot("groups have expired")


def others(stage: Stage) -> None:
    """Records of all types: share groups, Streams groups of both protocols, and what clients in
    good order never send.
    """
    stage.topic("words")
    stage.topic("counts", 1)
    stage.drop_topic("counts")
    for protocol in ("classic", "streams"):
        stage.streams(f"app-{protocol}", "words", "counts", {"group.protocol": protocol})
    stage.snapshot("Streams applications have started")
    printed = stage.broker.tools.run(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", stage.broker.address, "--topic", "words"),
        *("--group", "sharing", "--max-messages", "20", "--timeout-ms", "60000"),
    )
    assert len(printed.split()) >= 20, printed
    stage.compact()
    stage.stop_streams("app-classic")
    asyncio.run(_play_requests(stage.broker.address))
    stage.snapshot("requests of all kinds were played")
    stage.stop_streams("app-streams")
    stage.snapshot("the applications have stopped")


PLAYED: Final = (
    *("mixed_groups", "consumer_reconciling", "consumer_regexes", "consumer_leaving"),
    *("static_members", "joining", "syncing", "leaving", "transaction_offsets", "commits"),
)
"""Subjects of `kohort_conformance`, whose groups are left as they are."""


async def _play_requests(address: str) -> None:
    host, _, port = address.rpartition(":")
    for item in all_scenarios():
        if item.subject in PLAYED and not item.waits:
            stage = RequestStage(host, int(port), item.name.replace("_", "-"), "")
            # Some need longer sessions than this broker's: what they wrote until then stays.
            with suppress(Exception):
                await item.play(stage)
            await stage.close()


def _join(stage: Stage, group: str, topic: str, client: str, **options: str) -> None:
    stage.member(client, f"{group}-{client}", group, topic, **options)


def _restart_static(stage: Stage, client: str, instance: str) -> None:
    """End a static member, and start its instance again within its session."""
    stage.leave(f"static-{client}")
    stage.member(client, f"static-{client}-again", "static", "clicks", instance=instance, **STATIC)


def _commit(stage: Stage, group: str, topic: str, *offsets: int) -> None:
    """Commit offsets of the first partitions as a consumer without a membership."""
    consumer = Consumer({"bootstrap.servers": stage.broker.address, "group.id": group})
    committed = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()
    by_partition = {f"{topic}-{number}": offset for number, offset in enumerate(offsets)}
    stage.note("simple", group, "committed", offsets=by_partition)


def _transactions(stage: Stage) -> None:
    """Commits by transactions that interleave, are aborted, overtaken and left open."""
    one = SteppingProducer(stage, "java", "one")
    two = SteppingProducer(stage, "franz-go", "two")
    three = SteppingProducer(stage, "kohort", "three")
    for producer in (one, two, three):
        producer.step("begin")
        # franz-go ends no transaction that has no records.
        producer.step("send output 0 record")
    one.step("offsets interleaved booked 0 10")
    two.step("offsets interleaved booked 0 20")
    one.step("offsets interleaved booked 1 11")
    three.step("offsets aborted booked 0 30")
    _commit(stage, "overtaken", "booked", 5)
    one.step("offsets overtaken booked 0 12")
    two.step("offsets overtaken booked 0 22")
    _commit(stage, "overtaken", "booked", 40)
    two.step("commit")
    one.step("commit")
    three.step("abort")
    three.step("begin")
    three.step("offsets aborted booked 0 31")
    three.step("offsets interleaved booked 2 32")
    three.step("commit")
    hanging = SteppingProducer(stage, "java", "hanging", timeout_ms=5_000)
    hanging.step("begin")
    hanging.step("offsets interleaved booked 3 50")
    hanging.step("offsets aborted booked 1 51")
    hanging.kill()
    stage.snapshot("a transaction is open")
    consumer = Consumer({"bootstrap.servers": stage.broker.address, "group.id": "interleaved"})
    consumer.committed([TopicPartition("booked", 3)], PATIENCE_S)  # which waits for its end
    consumer.close()


SCENARIOS: Final[dict[str, Scenario]] = {
    "classic": classic,
    "consumer": consumer,
    "offsets": offsets,
    "others": others,
}
