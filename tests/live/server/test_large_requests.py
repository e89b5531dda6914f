"""The stall budget for large requests: each API, at the size of a request that costs most."""

import json
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kohort.protocol.apis import BY_NAME
from kohort.protocol.batches import Record, build
from live.server.server import SOON, Server, frame, serving
from live.server.test_budgets import Probe
from live.server.test_memory import Client, produce
from live.server.worst_requests import WORST, renamed
from turns import BOUND_MS

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ATTEMPTS = 3
"""Of which one has to stay in the budget: on a busy machine all work takes more processor time."""
LARGEST = 100 << 20
"""More bytes than any request takes that has as many array elements as are accepted."""
LARGEST_REQUEST_MB = 500
"""Memory that the largest request takes at most beside its bytes."""


def joining(metadata: bytes) -> bytes:
    return frame(
        "join_group",
        5,
        group_id="huge",
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )


def syncing(assignment: bytes) -> bytes:
    assignments = [{"member_id": "m", "assignment": assignment}]
    return frame("sync_group", 3, group_id="huge", member_id="m", assignments=assignments)


HUGE = {
    "a batch": lambda content: produce("t0", build([Record(None, content, (), 1_000)])),
    "metadata of a member": joining,
    "an assignment": syncing,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"storage": "memory", "num.partitions": "10", "offsets.topic.num.partitions": "4"}
    settings["http.listen"] = "127.0.0.1:0"
    with serving(tmp_path_factory.mktemp("large"), settings) as server:
        topics = [{"name": f"t{n}"} for n in range(100)]
        Client(server).ask(frame("metadata", 8, topics=topics, allow_auto_topic_creation=True))
        yield server


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(1 << 16, marks=pytest.mark.long),
        1 << 18,
        pytest.param(1 << 20, marks=pytest.mark.long),
        pytest.param(LARGEST, marks=pytest.mark.long, id="largest"),
    ],
)
@pytest.mark.parametrize(
    ("api", "kind"), [(api, kind) for api, kinds in WORST.items() for kind in kinds]
)
def test_no_large_request_holds_the_loop(server: Server, api: str, kind: str, size: int) -> None:
    request = WORST[api][kind]
    Client(server).ask(request(100))
    data = request(size)
    stay_in_budget(server, f"{api}, {kind}", [renamed(data, each) for each in range(ATTEMPTS)])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an authorizer, no ACL and an audit log, and a topic that nobody may use."""
    directory = tmp_path_factory.mktemp("closed")
    settings = {"storage": "memory", "authorizer.class.name": STANDARD}
    settings["audit.log.file"] = str(directory / "audit.log")
    with serving(directory, settings) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("size", [1 << 20, pytest.param(LARGEST, id="largest")])
@pytest.mark.parametrize(
    ("api", "kind"), [(api, kind) for api, kinds in WORST.items() for kind in kinds]
)
def test_no_large_request_that_is_denied_holds_the_loop(
    closed: Server, api: str, kind: str, size: int
) -> None:
    request = WORST[api][kind]
    Client(closed).ask(request(100))
    data = request(size)
    stay_in_budget(closed, f"{api}, {kind}", [renamed(data, each) for each in range(ATTEMPTS)])


def test_many_acls_are_made_shown_and_deleted(tmp_path: Path) -> None:
    settings = {
        "storage": "local",
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    every = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    requests = {
        "creation": WORST["create_acls"]["creations"](1 << 20),
        "description": frame("describe_acls", 3, **every),
        "deletion": frame("delete_acls", 3, filters=[every]),
    }
    with serving(tmp_path, settings) as server:
        Client(server).ask(WORST["create_acls"]["creations"](100))
        for what, data in requests.items():
            stay_in_budget(server, f"{what} of ACLs", [data] * ATTEMPTS)


@pytest.mark.parametrize("api", ["produce", "create_topics"])
def test_as_many_elements_as_are_accepted(server: Server, api: str) -> None:
    request = next(iter(WORST[api].values()))
    Client(server).ask(request(100))
    stay_in_budget(server, api, [request(LARGEST)] * ATTEMPTS)


@pytest.mark.parametrize("kind", HUGE)
def test_a_request_of_nearly_a_hundred_mebibytes(server: Server, kind: str) -> None:
    stay_in_budget(server, kind, [HUGE[kind](bytes(99 << 20))] * ATTEMPTS)


def stay_in_budget(server: Server, what: str, attempts: Sequence[bytes]) -> None:
    """Ask with the same request until it stays in the budget."""
    before, client = server.resident_mb, Client(server)
    for sent in attempts:
        worst = Probe(server).worst_ms(lambda sent=sent: client.ask(sent))  # type: ignore[misc]
        grown = server.resident_mb - before
        print(f"{what}, {len(sent) / 1e6:.2f} MB: {worst:.0f} ms, {grown:.0f} MB")
        if worst < BOUND_MS:
            break
    assert worst < BOUND_MS
    assert grown < len(sent) / 1e6 + LARGEST_REQUEST_MB


def commit(group: str, topic: str, first: int, count: int) -> bytes:
    offsets = [{"partition_index": first + n, "committed_offset": n} for n in range(count)]
    topics = [{"name": topic, "partitions": offsets}]
    return frame("offset_commit", 8, group_id=group, topics=topics)


def test_many_groups_and_a_large_group_over_http(server: Server) -> None:
    client = Client(server)
    wide = {"name": "wide", "num_partitions": 10_000, "replication_factor": 1}
    client.ask(frame("create_topics", 7, topics=[wide], timeout=60_000))
    for first in range(0, 10_000, 5_000):
        client.ask(commit("large", "wide", first, 5_000))
    for n in range(5_000):
        client.ask(commit(f"small{n}", "t0", 0, 1))
    address = f"http://{server.process.logged_address('http')}"
    shown: list[dict[str, Any]] = []

    def look(path: str) -> None:
        with urllib.request.urlopen(f"{address}{path}", timeout=SOON) as response:
            shown.append(json.load(response))

    look("/groups/small1")
    for path in ("/groups", "/groups/large"):
        worst = Probe(server).worst_ms(lambda path=path: look(path))  # type: ignore[misc]
        print(f"{path}: {worst:.0f} ms")
        assert worst < BOUND_MS
    assert len(shown[1]["groups"]) > 5_000
    assert [each["partition"] for each in shown[2]["offsets"]] == list(range(10_000))


def test_a_topic_of_very_many_partitions(tmp_path: Path) -> None:
    wide = {"name": "wide", "num_partitions": 4_000, "replication_factor": 1}
    grown = {"name": "wide", "count": 8_000, "assignments": None}
    requests = {
        "creation": frame("create_topics", 7, topics=[wide], timeout=60_000),
        "growth": frame("create_partitions", 3, topics=[grown], timeout=60_000),
        "metadata": frame("metadata", 8, topics=[{"name": "wide"}]),
    }
    with serving(tmp_path, {"storage": "local"}) as server:
        client = Client(server)
        for what, request in requests.items():
            worst = Probe(server).worst_ms(lambda asked=request: client.ask(asked))  # type: ignore[misc]
            print(f"{what} of 4,000 partitions: {worst:.0f} ms")
            assert worst < BOUND_MS


def test_every_api_has_its_worst_request() -> None:
    assert set(WORST) == set(BY_NAME)
