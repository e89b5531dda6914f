"""Fetches of tasks from the replica in their rack (KIP-392), on two nodes of Apache Kafka. No Spark
is needed.
"""

import asyncio
import signal
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.spark import fetching
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from spark.servers import SETTINGS
from spark.streams import wait_for
from spark.topics import WAIT_MS, Topics

pytestmark = pytest.mark.clients

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER, FOLLOWER = 1, 2
VALUE = b"v" * 100_000
COUNT = 5


class Relay:
    """Passes connections on to a port, and counts the bytes that come back."""

    def __init__(self, port):
        self.upstream = ("127.0.0.1", port)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.returned = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):  # the end of the test closes the socket
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client):
        with client, suppress(OSError), socket.create_connection(self.upstream) as server:
            back = threading.Thread(target=self._pass, args=(server, client, 1), daemon=True)
            back.start()
            self._pass(client, server, 0)
            back.join()

    def _pass(self, source, target, counted):
        try:
            while data := source.recv(65_536):
                target.sendall(data)
                self.returned += len(data) * counted
        except OSError:
            pass  # as at the end of the other direction
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def two_nodes():
    """The leader, the follower, and the relay before the follower."""
    port, other = free_port(neighbours=1), free_port(neighbours=1)
    relay = Relay(other)
    own = {
        "process.roles": "broker",
        "node.id": str(FOLLOWER),
        "controller.quorum.voters": f"{LEADER}@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{other}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}",
        "broker.rack": "b",
    }
    racks = SETTINGS | {"broker.rack": "a", "replica.selector.class": SELECTOR}
    with (
        relay.listening,
        Kafka.start(port, racks, heap="400m", flags=QUICK_START) as leader,
        Kafka.start(other, racks | own, heap="400m", flags=QUICK_START) as follower,
    ):
        yield leader, follower, relay


async def create(address, topic):
    """One partition on both nodes; the first one leads."""
    assignments = [{"partition_index": 0, "broker_ids": [LEADER, FOLLOWER]}]
    wanted = {"name": topic, "num_partitions": -1, "replication_factor": -1,
              "assignments": assignments, "configs": []}  # fmt: skip
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        node = (await cluster.metadata(())).controller_id
        answer = await (await cluster.connection(node)).send(
            "create_topics", topics=[wanted], timeout=WAIT_MS
        )
        assert not answer.topics[0].error_code, answer


def read(address, rack):
    given = {"kafka.bootstrap.servers": address, "subscribe": "orders"}
    given |= {"kafka.client.rack": rack} if rack else {}
    options = parse_read(given, streaming=False)
    found = list(fetching.read(options, OffsetRange("orders", 0, 0, COUNT)))
    assert [at for each in found for at in each["offset"].to_pylist()] == [*range(COUNT)]


def test_the_replica_in_the_rack_is_read_and_else_the_leader():
    if reason := missing_tools():
        pytest.skip(reason)
    with two_nodes() as (leader, follower, relay):
        asyncio.run(create(leader.address, "orders"))
        Topics(leader.address).fill("orders", {0: [VALUE] * COUNT})

        def returned(rack):
            """Bytes of a read that came from the follower."""
            before = relay.returned
            read(leader.address, rack)
            return relay.returned - before

        for rack in (None, "a", "c"):
            assert returned(rack) < len(VALUE), rack
        # The leader names the follower once it has all records.
        wait_for(lambda: returned("b") >= COUNT * len(VALUE), "read from the follower")
        follower.process.send_signal(signal.SIGKILL)
        assert returned("b") < len(VALUE)
