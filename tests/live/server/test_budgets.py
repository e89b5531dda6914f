"""The stall budget: another client's heartbeats while each API is asked at its worst.

What counts is the CPU time of the event loop's thread between a heartbeat and its response: a busy
machine makes everything late, and costs the server no CPU.
"""

import asyncio
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from kohort.protocol.batches import Record, build
from live.server.server import SOON, Server, frame, serving
from live.server.test_memory import Client, fetch, join, produce
from server.handlers.test_produce_bounds import bomb
from turns import BOUND_MS, adjusted_ms

PAUSE_S = 0.001
"""Between two heartbeats: the first part of a turn, this long at most, is not measured."""


class Probe:
    """Heartbeats of a client of its own, and the most CPU time that one of them waited for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = Client(server)
        self._heartbeat = frame("heartbeat", 4, group_id="g", generation_id=1, member_id="m")
        self._client.ask(self._heartbeat)

    def worst_ms(self, work: Callable[[], object]) -> float:
        """The most of any heartbeat during `work`, as `adjusted_ms` has it."""
        thread = threading.Thread(target=work)
        worst = 0.0
        thread.start()
        while thread.is_alive():
            before = self._server.cpu_s
            self._client.ask(self._heartbeat)
            worst = max(worst, self._server.cpu_s - before)
            time.sleep(PAUSE_S)
        thread.join()
        return adjusted_ms(worst)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"storage": "memory", "num.partitions": "10", "offsets.topic.num.partitions": "4"}
    settings["http.listen"] = "127.0.0.1:0"
    with serving(tmp_path_factory.mktemp("budgets"), settings) as server:
        client = Client(server)
        topics = [{"name": f"t{n}"} for n in range(500)]
        client.ask(frame("metadata", 8, topics=topics, allow_auto_topic_creation=True))
        yield server


def groups(count: int) -> bytes:
    asked = [{"group_id": f"g{n % 100}", "topics": None} for n in range(count)]
    return frame("offset_fetch", 8, groups=asked, require_stable=False)


def describe(count: int) -> bytes:
    resource = {"resource_type": 2, "resource_name": "t1", "configuration_keys": None}
    return frame("describe_configs", 4, resources=[resource] * count)


def commit(group: str) -> bytes:
    offsets = [{"partition_index": n, "committed_offset": n} for n in range(10)]
    topics = [{"name": f"t{n}", "partitions": offsets} for n in range(500)]
    return frame("offset_commit", 8, group_id=group, topics=topics)


@pytest.mark.parametrize(
    ("what", "request_bytes"),
    [
        ("produce a bomb", lambda: produce("t0", bomb(60))),
        ("offset_fetch of 1,000 groups", lambda: groups(1_000)),
        ("describe_configs of 1,000 topics", lambda: describe(1_000)),
        ("commit of 5,000 partitions", lambda: commit("orders")),
        ("commit of a group id of 32,000", lambda: commit("g" * 32_000)),
        ("join with a reason of 32 KB", lambda: join("g1", "c", "r" * 32_000)),
    ],
)
def test_no_request_holds_the_loop(
    server: Server, what: str, request_bytes: Callable[[], bytes]
) -> None:
    data = request_bytes()
    client = Client(server)
    warm = Client(server)
    warm.ask(groups(1))
    worst = Probe(server).worst_ms(lambda: client.ask(data))
    print(f"{what}: {worst:.0f} ms")
    assert worst < BOUND_MS


def test_a_fetch_of_all_that_a_client_may_ask_for(server: Server) -> None:
    client = Client(server)
    for _ in range(40):
        client.ask(produce("t2", build([Record(None, bytes(1_000_000), (), 1_000)])))
    client.ask(fetch("t2"))
    worst = Probe(server).worst_ms(lambda: client.ask(fetch("t2")))
    print(f"fetch of 55 MiB: {worst:.0f} ms")
    assert worst < BOUND_MS


def test_pipelined_requests_without_reading(server: Server) -> None:
    """The server stops to read; nothing grows, and others are served."""
    before = server.resident_mb
    client = Client(server)
    client.socket.settimeout(2)
    data = frame("metadata", 8, topics=[{"name": "t0"}]) * 1_000

    def send() -> None:
        try:
            for _ in range(100):
                client.send(data)
        except TimeoutError:
            pass

    worst = Probe(server).worst_ms(send)
    assert worst < BOUND_MS
    assert server.resident_mb - before < 60


def test_one_byte_at_a_time_and_half_open_peers(server: Server) -> None:
    before = server.resident_mb
    slow = [Client(server) for _ in range(50)]

    def drip() -> None:
        for byte in frame("metadata", 8, topics=[{"name": "t0"}]):
            for client in slow:
                client.send(bytes((byte,)))

    assert Probe(server).worst_ms(drip) < BOUND_MS
    assert all(client.response() for client in slow)
    for client in slow:
        client.send((50 << 20).to_bytes(4, "big"))  # half a request, never the rest
    assert Probe(server).worst_ms(lambda: time.sleep(0.5)) < BOUND_MS
    assert server.resident_mb - before < 60


async def test_five_thousand_idle_connections(server: Server) -> None:
    before = server.resident_mb
    opened = []
    for _ in range(50):
        opened += await asyncio.gather(
            *(asyncio.open_connection(*server.address) for _ in range(100))
        )
    probe = await asyncio.to_thread(Probe, server)
    worst = await asyncio.to_thread(probe.worst_ms, lambda: time.sleep(0.5))
    grown = server.resident_mb - before
    print(f"5,000 idle connections: {grown:.0f} MB")
    for _, writer in opened:
        writer.transport.abort()
    assert worst < BOUND_MS
    assert grown < 100


def test_a_scrape_of_very_many_offsets(server: Server) -> None:
    client = Client(server)
    for n in range(4):
        client.ask(commit(f"scraped{n}"))
    url = f"http://{server.process.logged_address('http')}/metrics"
    scraped: list[bytes] = []

    def scrape() -> None:
        for _ in range(2):
            with urllib.request.urlopen(url, timeout=SOON) as response:
                scraped.append(response.read())

    worst = Probe(server).worst_ms(scrape)
    print(f"scrape: {worst:.0f} ms")
    assert scraped[1].count(b"kohort_group_committed_offset{") == 20_000
    assert worst < BOUND_MS
