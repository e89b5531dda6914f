"""The ACLs of docs/history.md are enough to read the log of groups of an Apache Kafka."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from docs.blocks import run_by
from docs.shell import commands, words
from history.broker_logs import by_broker
from interop.tools import Tools
from kohort.client.admin import Admin
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.spark.history.sampling import EndsOfBroker
from kohort.spark.history.sources import BrokerLog, broker_options
from kohort.types import TopicPartition
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.clients]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "s3cret"
RETENTION_MINUTES = 1_234
ORDERS = TopicPartition("orders", 0)


class Node(NamedTuple):
    """An Apache Kafka with an authorizer."""

    address: str
    """Of a listener whose clients may all."""
    login: dict[str, str]
    """Options of the user who reads the log."""

    @property
    def log(self) -> BrokerLog:
        return BrokerLog(broker_options(self.login))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if reason := missing_tools():
        pytest.skip(reason)
    port = free_port(neighbours=2)
    own, address = f"PLAINTEXT://127.0.0.1:{port}", f"127.0.0.1:{port + 2}"
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listeners": f"{own},CONTROLLER://127.0.0.1:{port + 1},SASL_PLAINTEXT://{address}",
        "advertised.listeners": f"{own},SASL_PLAINTEXT://{address}",
        "listener.security.protocol.map":
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config":
            f'{MODULE} user_history="{PASSWORD}";',
        "offsets.topic.num.partitions": "2",
        "offsets.retention.minutes": str(RETENTION_MINUTES),
    }  # fmt: skip
    login = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} username="history" password="{PASSWORD}";',
    }
    with Kafka.start(port, settings, heap="512m", flags=QUICK_START) as kafka:
        yield Node(kafka.address, login)


async def commit(address: str) -> None:
    """A group commits, so that its log exists."""
    async with Admin(bootstrap=address) as admin:
        await admin.create_topic("orders", partitions=1)
        outcomes = await admin.commit("billing", {ORDERS: OffsetAndMetadata(offset=7)})
        assert set(outcomes.values()) == {None}


def is_allowed(node: Node) -> bool:
    """Whether the broker has applied the ACLs: its metadata follows the tool's response."""
    try:
        node.log.offsets()
        return bool(EndsOfBroker(node.log.kafka, lambda: 0).present(["orders"]).ends)
    except KohortError:
        return False


async def test_a_user_with_these_acls_reads_all_that_a_build_needs(
    node: Node, tools: Tools
) -> None:
    await commit(node.address)
    with pytest.raises(KohortError, match=r"(?i)authoriz"):
        node.log.offsets()
    (block,) = run_by(__file__)
    for line in commands(block.code.replace("broker:9092", node.address)):
        printed = tools.run("org.apache.kafka.tools.AclCommand", *words(line)[1:])
        assert "Adding ACLs" in printed, printed
    wait_until(lambda: is_allowed(node))
    assert node.log.group_options().retention_ms == RETENTION_MINUTES * 60_000
    assert "orders" in node.log.topic_names().values()
    records = by_broker(node.login)
    assert sum(table.num_rows for table in records.values()) > 0
