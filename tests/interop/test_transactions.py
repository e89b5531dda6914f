"""Transactions of our client and others: librdkafka and kafkajs add partitions by request, ours,
Apache Kafka's producer, franz-go and sarama as the server's versions allow.

The same steps for both, with the server or the producer killed between any two of them.
"""

import signal
import subprocess
import sys
from importlib.util import find_spec
from uuid import uuid4

import pytest

from interop.built import BUILT, GO, NODE
from interop.programs import KOHORT, PROGRAMS, java, java_missing
from interop.targets import ApacheKafka, each_server

STEP_SECONDS = 60.0
pytestmark = [pytest.mark.interop, each_server]


class ProgramProducer:
    """A program that takes a step from each line; each returns "done" or the error."""

    def program(self):
        raise NotImplementedError

    def __init__(self, address, transactional_id, timeout_ms=60_000):
        self.process = subprocess.Popen(
            [*self.program(), address, transactional_id, str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.communicate()


class KohortProducer(ProgramProducer):
    fenced = ("ProducerFencedError",)

    def program(self):
        return [sys.executable, str(PROGRAMS / "kohort_transactions.py")]


class JavaProducer(ProgramProducer):
    fenced = ("ProducerFencedException", "InvalidProducerEpochException")

    def program(self):
        return java("TransactionProgram")


class FranzGoProducer(ProgramProducer):
    fenced = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")

    def program(self):
        return [str(BUILT / "go" / "franzgo-transactions")]


class SaramaProducer(ProgramProducer):
    fenced = ("Error code = 90",)

    def program(self):
        return [str(BUILT / "go" / "sarama-transactions")]


class KafkajsProducer(ProgramProducer):
    fenced = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")

    def program(self):
        return ["node", str(BUILT / "node" / "kafkajs-transactions.mjs")]


class LibrdkafkaProducer:
    """Its steps return "done" or the name of an error."""

    fenced = ("_FENCED",)

    def __init__(self, address, transactional_id, timeout_ms=60_000):
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def step(self, word, *rest):
        from confluent_kafka import KafkaException

        try:
            getattr(self, f"_{word}")(*rest)
        except KafkaException as error:
            return error.args[0].name()
        return "done"

    def _init(self):
        self._producer.init_transactions(STEP_SECONDS)

    def _begin(self):
        self._producer.begin_transaction()

    def _send(self, topic, partition, value):
        self._producer.produce(topic, value, "k", partition)
        self._producer.flush(STEP_SECONDS)

    def _offsets(self, group, topic, partition, offset):
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        self._producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, offset)], consumer.consumer_group_metadata()
        )

    def _commit(self):
        self._producer.commit_transaction(STEP_SECONDS)

    def _abort(self):
        self._producer.abort_transaction(STEP_SECONDS)

    def kill(self):
        """Forget it without a word to the server."""
        self._producer = None


def missing_librdkafka():
    return None if find_spec("confluent_kafka") else "the package confluent-kafka is not installed"


@pytest.fixture(
    params=[
        pytest.param((KohortProducer, KOHORT.missing), id="kohort"),
        pytest.param((LibrdkafkaProducer, missing_librdkafka), id="confluent-kafka"),
        pytest.param((JavaProducer, java_missing), id="java", marks=pytest.mark.clients),
        pytest.param((FranzGoProducer, GO.missing), id="franz-go", marks=pytest.mark.clients),
        pytest.param((SaramaProducer, GO.missing), id="sarama", marks=pytest.mark.clients),
        pytest.param((KafkajsProducer, NODE.missing), id="kafkajs", marks=pytest.mark.clients),
    ]
)
def new_producer(request):
    made = []
    producer, missing = request.param
    if reason := missing():
        pytest.skip(reason)

    def new(*arguments, **options):
        made.append(producer(*arguments, **options))
        return made[-1]

    yield new
    for each in made:
        each.kill()


class TopicOnServer:
    """A server, and a topic of two partitions on it, which is the transactional id, too."""

    def __init__(self, target, topic):
        self.target = target
        self.address = target.address
        self.topic = topic
        self.group = f"{topic}-group"

    def restart(self):
        """Kill the server and start it again; back when its coordinators have started, whose error
        until then kafkajs does not retry.
        """
        self.target.restart(signal.SIGKILL)
        if isinstance(self.target, ApacheKafka):
            self.target.warm_up()

    def await_markers(self):
        """Wait until Apache Kafka has written all markers: 4.3 that is killed before may take them
        for written when it starts again, and the next abort takes the committed records along.
        """
        if isinstance(self.target, ApacheKafka):
            while self.read() != self.read("read_uncommitted"):
                pass  # the test has a time limit
            assert self.committed() >= 0  # pending offsets are waited for

    def read(self, isolation="read_committed"):
        """The values of each partition, up to its last stable offset or its end."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"reader-{uuid4()}",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(self.topic, index, 0) for index in (0, 1)])
        found, ended = {0: [], 1: []}, set()
        try:
            while len(ended) < 2:
                message = consumer.poll(STEP_SECONDS)
                assert message is not None, "no end of the partitions"
                if message.error() is None:
                    found[message.partition()].append(message.value().decode())
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF
                    ended.add(message.partition())
        finally:
            consumer.close()
        return found

    def committed(self):
        """The group's offset in partition 0."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": self.group})
        try:
            (partition,) = consumer.committed([TopicPartition(self.topic, 0)], STEP_SECONDS)
            return partition.offset
        finally:
            consumer.close()


@pytest.fixture
def world(restartable):
    from confluent_kafka.admin import AdminClient, NewTopic

    if reason := missing_librdkafka():
        pytest.skip(reason)
    topic = f"tx-{uuid4()}"
    admin = AdminClient({"bootstrap.servers": restartable.address})
    admin.create_topics([NewTopic(topic, 2)])[topic].result(STEP_SECONDS)
    return TopicOnServer(restartable, topic)


def run(producer, *steps):
    for step in steps:
        words = [int(word) if word.isdigit() else word for word in step.split()]
        assert producer.step(*words) == "done", step


def transaction(world, value, end, offset=None):
    """The steps of one transaction in both partitions, and in the offsets of a group."""
    steps = ["begin", *(f"send {world.topic} {index} {value}" for index in (0, 1))]
    if offset is not None:
        steps.append(f"offsets {world.group} {world.topic} 0 {offset}")
    return [*steps, end]


def test_committed_and_aborted(world, new_producer):
    producer = new_producer(world.address, world.topic)
    run(producer, "init", *transaction(world, "a", "commit", 5))
    run(producer, *transaction(world, "b", "abort", 6))
    run(producer, *transaction(world, "c", "commit"))
    run(producer, "begin", f"send {world.topic} 0 open")
    assert world.read() == {0: ["a", "c"], 1: ["a", "c"]}
    assert world.read("read_uncommitted") == {0: ["a", "b", "c", "open"], 1: ["a", "b", "c"]}
    assert world.committed() == 5


def test_a_second_instance_fences_the_first(world, new_producer):
    first = new_producer(world.address, world.topic)
    run(first, "init", "begin", f"send {world.topic} 0 first")
    second = new_producer(world.address, world.topic)
    run(second, "init", *transaction(world, "second", "commit"))
    said = first.step("commit")
    assert any(name in said for name in first.fenced), said
    assert world.read() == {0: ["second"], 1: ["second"]}


def test_a_killed_producer(world, new_producer):
    killed = new_producer(world.address, world.topic)
    run(killed, "init", *transaction(world, "lost", "commit", 1)[:-1])
    killed.kill()
    assert world.read() == {0: [], 1: []}
    run(new_producer(world.address, world.topic), "init", *transaction(world, "next", "commit", 2))
    assert world.read() == {0: ["next"], 1: ["next"]}
    assert world.committed() == 2


def test_a_transaction_that_times_out(world, new_producer):
    late = new_producer(world.address, world.topic, timeout_ms=1_000)
    run(late, "init", "begin", f"send {world.topic} 0 late")
    other = new_producer(world.address, f"{world.topic}-other")
    run(other, "init", *transaction(world, "other", "commit"))
    while world.read()[0] != ["other"]:
        pass  # the read waits for its server, and the test has a time limit
    assert late.step("commit") != "done"


# A server knows no more of `begin` than before, nor much more of one `send` than of two.
@pytest.mark.parametrize(
    "stage",
    [pytest.param(each, marks=pytest.mark.long if each in (2, 3) else ()) for each in range(7)],
)
def test_a_killed_server(world, new_producer, stage):
    """Before the first transaction, between any two of its steps, and after it.

    The later transactions commit no offsets: after a restart of any broker, librdkafka 2.x never
    sends them to the coordinator of a group that it knew before.
    """
    producer = new_producer(world.address, world.topic)
    steps = ["init", *transaction(world, "a", "commit", 5)]
    run(producer, *steps[:stage])
    if stage == len(steps):
        world.await_markers()
    world.restart()
    run(producer, *steps[stage:])
    run(producer, *transaction(world, "b", "abort"), *transaction(world, "c", "commit"))
    assert world.read() == {0: ["a", "c"], 1: ["a", "c"]}
    assert world.committed() == 5
