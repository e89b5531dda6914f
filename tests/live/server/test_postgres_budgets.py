"""The stall budget of a node of a cluster on PostgreSQL: requests, and taking all that it leads."""

from collections.abc import Iterator

import pytest

from kohort.protocol.batches import Record, build
from live.server.server import SOON, Server, frame, serving
from live.server.test_budgets import Probe
from live.server.test_large_requests import ATTEMPTS, commit, stay_in_budget
from live.server.test_memory import Client
from peers.postgres import Postgres
from turns import BOUND_MS
from waiting import wait_until

PARTITIONS = 1_000
LARGE_BATCHES = 55


class Node:
    """A node, and what it shares."""

    def __init__(self, server: Server, postgres: Postgres, schema: str) -> None:
        self.server = server
        self.client = Client(server)
        self._postgres = postgres
        self._schema = schema

    def sql(self, statement: str) -> list[str]:
        return self._postgres.execute(f"set search_path={self._schema}", statement)

    def taken(self, topic: str) -> int:
        """How many partitions of a topic the node leads, as far as their logs were opened."""
        (count,) = self.sql(
            f"select count(*) from logs where topic = '{topic}' and leader_epochs <> ''"
        )
        return int(count)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Node]:
    database = postgres.new_schema()
    settings = {"storage": database, "http.listen": "127.0.0.1:0"}
    with serving(tmp_path_factory.mktemp("node"), settings) as server:
        node = Node(server, postgres, database.rpartition("=")[2])
        node.client.ask(creation("wide", PARTITIONS))
        wait_until(lambda: node.taken("wide") == PARTITIONS)
        yield node


def creation(name: str, partitions: int) -> bytes:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return frame("create_topics", 7, topics=[topic], timeout=60_000)


def produce(count: int, size: int) -> bytes:
    data = [
        {"index": index, "records": build([Record(None, bytes(size), (), 1_000)])}
        for index in range(count)
    ]
    topics = [{"name": "wide", "partition_data": data}]
    return frame("produce", 9, transactional_id=None, acks=-1, timeout=SOON, topic_data=topics)


def delete_records(count: int) -> bytes:
    partitions = [{"partition_index": index, "offset": -1} for index in range(count)]
    topics = [{"name": "wide", "partitions": partitions}]
    return frame("delete_records", 2, topics=topics, timeout=60_000)


def test_a_request_of_many_large_batches(node: Node) -> None:
    request = produce(LARGE_BATCHES, 1_000_000)
    stay_in_budget(node.server, "produce to 55 partitions", [request] * ATTEMPTS)


def test_a_request_of_very_many_partitions(node: Node) -> None:
    requests = {
        "produce": produce(PARTITIONS, 100),
        "commit": commit("g", "wide", 0, PARTITIONS),
        "deletion of records": delete_records(PARTITIONS),
    }
    for what, request in requests.items():
        stay_in_budget(node.server, f"{what}, 1,000 partitions", [request] * ATTEMPTS)


def test_topics_that_are_made_and_deleted(node: Node) -> None:
    many = [{"name": f"t{n}", "num_partitions": 1, "replication_factor": 1} for n in range(1_000)]
    names = [{"name": each["name"], "topic_id": None} for each in many]
    for what, request in {
        "creation of 1,000 topics": frame("create_topics", 7, topics=many, timeout=60_000),
        "deletion of 1,000 topics": frame("delete_topics", 6, topics=names, timeout=60_000),
        "creation of 4,000 partitions": creation("wider", 4_000),
    }.items():
        worst = Probe(node.server).worst_ms(lambda asked=request: node.client.ask(asked))  # type: ignore[misc]
        print(f"{what}: {worst:.0f} ms")
        assert worst < BOUND_MS


def test_all_that_it_leads_is_taken_again(node: Node) -> None:
    def begin_another_session() -> None:
        node.sql("update logs set leader_epochs = ''")
        node.sql("update nodes set session = session + 1")
        wait_until(lambda: node.taken("wide") == PARTITIONS)

    # A heartbeat also waits for the session, and for what threads read beside it.
    attempts = (Probe(node.server).worst_ms(begin_another_session) for _ in range(ATTEMPTS))
    worst = next((each for each in attempts if each < BOUND_MS), None)
    print("taking all partitions:", worst)
    assert worst is not None
