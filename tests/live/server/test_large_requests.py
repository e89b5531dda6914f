"""The stall budget for large requests: each API, at the size of a request that costs most."""

from collections.abc import Iterator

import pytest

from kohort.protocol.apis import BY_NAME
from live.server.server import Server, frame, serving
from live.server.test_budgets import BUDGET_S, Probe
from live.server.test_memory import Client
from live.server.worst_requests import WORST

LARGEST_REQUEST_MB = 500
"""Memory that the largest request takes at most beside its bytes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"storage": "memory", "num.partitions": "10", "offsets.topic.num.partitions": "4"}
    with serving(tmp_path_factory.mktemp("large"), settings) as server:
        topics = [{"name": f"t{n}"} for n in range(100)]
        Client(server).ask(frame("metadata", 8, topics=topics, allow_auto_topic_creation=True))
        yield server


@pytest.mark.parametrize("size", [1 << 16, 1 << 20, pytest.param(10 << 20, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("api", "kind"), [(api, kind) for api, kinds in WORST.items() for kind in kinds]
)
def test_no_large_request_holds_the_loop(server: Server, api: str, kind: str, size: int) -> None:
    build = WORST[api][kind]
    Client(server).ask(build(100))
    before = server.resident_mb
    data, client = build(size), Client(server)
    worst = Probe(server).worst_during(lambda: client.ask(data))
    grown = server.resident_mb - before
    print(f"{api}, {kind}, {len(data) / 1e6:.2f} MB: {worst * 1000:.0f} ms, {grown:.0f} MB")
    assert worst < BUDGET_S
    assert grown < len(data) / 1e6 + LARGEST_REQUEST_MB


def test_every_api_has_its_worst_request() -> None:
    assert {"produce", *WORST} == set(BY_NAME)
