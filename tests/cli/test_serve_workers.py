"""`kohort serve --workers`: several processes that start, serve and end as one server."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cli.running import runner
from cli.served import Serve, ask, endpoint
from kohort.client import ConsumerGroup, Generation
from kohort.server.config import Config
from kohort.server.supervisor import (
    ALIVE_INTERVAL_S,
    END_UNSTARTED,
    Supervisor,
    worker_process,
)
from kohort.testing.server_process import ServerProcess
from kohort.types import TopicPartition as ClientPartition
from processes import children, is_alive
from waiting import wait_until

PARTITIONS = 6
RECORDS = 60
MANY_PARTITIONS = f"--set=num.partitions={PARTITIONS}"


def workers_of(server: ServerProcess) -> list[int]:
    """The ids of the processes of the workers, in the order of their nodes."""
    return children(server.process.pid)


def addresses_of(server: ServerProcess) -> list[str]:
    line = server.line("listening")
    others = json.loads(line.partition("others=")[2].partition("]")[0] + "]")
    return [server.address, *others]


def get(server: ServerProcess, path: str) -> tuple[int, str]:
    url = f"http://{server.logged_address('http')}{path}"
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def produce(address: str, first: int = 0) -> None:
    """`RECORDS` records, whose values are numbers from `first` on, over all partitions."""
    producer = Producer({"bootstrap.servers": address})
    failures: list[Any] = []
    for number in range(first, first + RECORDS):
        producer.produce(
            "t",
            str(number).encode(),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failures


def read_on(address: str, expected: int) -> list[int]:
    """What the group has not read yet, which is then committed."""
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **settings})
    consumer.assign([TopicPartition("t", each) for each in range(PARTITIONS)])
    offsets = consumer.committed(consumer.assignment(), timeout=60)
    consumer.assign(offsets)
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < expected and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b""))
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(found)


def test_workers_are_one_server(serve: Serve) -> None:
    server = serve("--memory", "--dev", "--workers", "3", "--http", "127.0.0.1:0", MANY_PARTITIONS)
    addresses = addresses_of(server)
    first = endpoint(addresses[0])[1]
    assert [endpoint(each)[1] for each in addresses] == [first, first + 1, first + 2]
    for address in addresses:
        assert ask(address)[:2] == b"\0\0"
    wait_until(lambda: get(server, "/health")[0] == 200)
    produce(addresses[2])
    assert read_on(addresses[1], RECORDS) == list(range(RECORDS))
    nodes = json.loads(get(server, "/nodes")[1])["nodes"]
    assert [each["node_id"] for each in nodes] == [0, 1, 2]
    assert len(json.loads(get(server, "/topics")[1])["topics"]) >= 2
    assert '<a href="/nodes">' in get(server, "/")[1]
    status, groups = get(server, "/groups")
    assert (status, [each["group_id"] for each in json.loads(groups)["groups"]]) == (200, ["g"])
    assert json.loads(get(server, "/groups/g")[1])["group_id"] == "g"
    assert get(server, "/groups/nope")[0] == 404
    metrics = get(server, "/metrics")[1]
    for node in range(3):
        assert f'kohort_worker_up{{node="{node}"}} 1' in metrics
        assert f'kohort_requests_total{{node="{node}",api="produce"}}' in metrics
    assert metrics.count("# TYPE kohort_requests_total counter") == 1
    assert [line for line in server.lines if "listening" in line] == [server.line("listening")]
    assert all(" node=" in line for line in server.lines if "created a topic" in line)
    assert server.stop() == 0
    assert "stopped" in server.lines[-1]


def test_the_list_of_processes_has_no_setting_of_a_worker(serve: Serve) -> None:
    secret = "a-secret-of-the-operator"
    http = ("--http", "127.0.0.1:0", f"--set=http.token={secret}")
    server = serve("--memory", "--dev", "--workers", "2", *http)
    addresses_of(server)  # all are started
    assert secret.encode() in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    workers = workers_of(server)
    assert len(workers) == 2
    for worker in workers:
        for shown in ("cmdline", "environ"):
            assert secret.encode() not in Path(f"/proc/{worker}/{shown}").read_bytes()
    assert not [line for line in server.lines if secret in line]


def test_commands_see_all_workers(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(
        *("--memory", "--dev", "--workers", "3", MANY_PARTITIONS),
        f"--set=local.socket={tmp_path}/s",
    )
    addresses = addresses_of(server)
    produce(addresses[0])
    groups = [f"g{number}" for number in range(6)]
    for group in groups:
        commit(addresses[0], group)
    for place in (addresses[2], f"unix:{tmp_path}/s", f"unix:{tmp_path}/s.2"):
        run = runner(capsys, "-b", place)
        assert [row["group"] for row in run("groups", "list", "--output", "json").json] == groups
        described = run("groups", "describe", "--group", "g3", "--output", "json")
        assert described.exit_code == 0
        assert run("topics", "create", "--topic", "of-all", "--partitions", "5").exit_code == 0
        assert "of-all" in run("topics", "list").output
        assert run("topics", "delete", "--topic", "of-all").exit_code == 0
    assert server.stop() == 0


def commit(address: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()


async def test_members_of_a_group_go_on_while_workers_are_killed(serve: Serve) -> None:
    """Each worker is killed under load: what was acknowledged is read."""
    server = serve("--data", "d", "--dev", "--workers", "2", MANY_PARTITIONS)
    addresses = ",".join(addresses_of(server))
    seen: set[int] = set()

    async def work(generation: Generation, partition: ClientPartition) -> None:
        async for batch in generation.records(partition):
            seen.update(int(record.value or b"") for record in batch.records)
            await generation.commit({partition: batch.next_offset})

    group = ConsumerGroup("g", topics=["t"], bootstrap=addresses)
    async with group:
        running = asyncio.create_task(group.run_until_signal(work))
        for round_ in range(3):
            producing = asyncio.to_thread(produce, addresses, round_ * RECORDS)
            if round_:
                os.kill(workers_of(server)[round_ - 1], signal.SIGKILL)
            await producing
        await asyncio.to_thread(wait_until, lambda: len(seen) == 3 * RECORDS)
        group.stop()
        await running
    assert seen == set(range(3 * RECORDS))
    assert server.stop() == 0


@pytest.mark.parametrize("killed", [0, 1])
def test_a_worker_that_is_killed_comes_back(serve: Serve, killed: int) -> None:
    server = serve("--data", "d", "--dev", "--workers", "2", MANY_PARTITIONS)
    addresses = addresses_of(server)
    produce(addresses[0])
    os.kill(workers_of(server)[killed], signal.SIGKILL)
    assert ask(addresses[1 - killed])[:2] == b"\0\0"
    produce(addresses[1 - killed], RECORDS)  # waits for the leader of some
    assert f"node={killed}" in server.line("worker is serving again")
    assert read_on(addresses[killed], 2 * RECORDS) == list(range(2 * RECORDS))
    assert server.stop() == 0


async def test_a_worker_that_hangs_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_process, "MAX_MISSED_SIGNS", 5)
    listen = {"listeners": "127.0.0.1:0", "log.dir": str(tmp_path / "d")}
    async with Supervisor(Config(listen | {"workers": "2", "num.partitions": 6})) as supervisor:
        await supervisor.start()
        addresses = [report.advertised for report in supervisor.reports]
        await asyncio.to_thread(produce, addresses[0])
        _, hung = children(os.getpid())[-2:]
        os.kill(hung, signal.SIGSTOP)
        await asyncio.to_thread(produce, addresses[0], RECORDS)  # waits for the leader of some
        assert not is_alive(hung)
        assert "worker hangs, killing it" in caplog.messages
        found = await asyncio.to_thread(read_on, addresses[1], 2 * RECORDS)
        assert found == list(range(2 * RECORDS))


def test_a_worker_does_not_start_without_its_directory(serve: Serve, tmp_path: Path) -> None:
    server = serve("--data", str(tmp_path / "d"), "--dev", "--workers", "2", MANY_PARTITIONS)
    addresses = addresses_of(server)
    produce(addresses[0])
    own, aside = tmp_path / "d" / "worker1", tmp_path / "aside"
    own.rename(aside)
    os.kill(workers_of(server)[1], signal.SIGKILL)
    assert f"{own} is missing" in server.line(" why=")
    aside.rename(own)
    assert "node=1" in server.line("worker is serving again")
    assert read_on(addresses[0], RECORDS) == list(range(RECORDS))
    assert server.stop() == 0


def test_workers_end_with_their_parent(serve: Serve) -> None:
    server = serve("--data", "d", "--workers", "2")
    server.line("listening")
    workers = workers_of(server)
    assert len(workers) == 2
    server.kill()
    wait_until(lambda: not any(map(is_alive, workers)))
    again = serve("--data", "d", "--workers", "2")
    assert "listening" in again.line("listening")


def test_a_worker_closes_cleanly_that_writes_to_a_parent_that_is_gone(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("--data", str(tmp_path / "d"), "--workers", "2")
    server.line("listening")
    workers = workers_of(server)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    server.kill()
    time.sleep(ALIVE_INTERVAL_S)  # what each writes first on waking is a sign of life
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not any(map(is_alive, workers)))
    assert not [line for line in server.lines if "Traceback" in line], server.log_tail()
    assert len([*tmp_path.glob("d/**/.clean-shutdown")]) == len(workers)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("started", [1, 3])
def test_a_signal_during_the_start_ends_all(
    tmp_path: Path, started: int, how: signal.Signals
) -> None:
    """Sent to everybody, as by a terminal, once so many workers are there: nobody serves."""
    options = ("--data", str(tmp_path / "d"), "--workers", "3")
    with ServerProcess(*options, log=tmp_path / "log", session=True) as server:
        wait_until(lambda: len(workers_of(server)) >= started)
        workers = workers_of(server)
        for pid in (server.process.pid, *workers):
            with suppress(ProcessLookupError):  # the parent may have ended it by then
                os.kill(pid, how)
        assert server.wait() == 0
        assert not any(map(is_alive, workers))
        assert "stopped during startup" in server.lines[-1]
        assert not [line for line in server.lines if "listening" in line or "Traceback" in line]


def test_a_worker_that_serves_is_not_ended_by_the_signal_for_starting_ones(serve: Serve) -> None:
    server = serve("--memory", "--dev", "--workers", "2", MANY_PARTITIONS)
    addresses = addresses_of(server)
    before = workers_of(server)
    for pid in before:
        os.kill(pid, END_UNSTARTED)
    produce(addresses[1])
    assert workers_of(server) == before
    assert server.stop() == 0


def test_a_worker_does_not_import_hypothesis(tmp_path: Path) -> None:
    code = "import sys, kohort.cli.worker; sys.exit('hypothesis' in sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True)
    assert not [*tmp_path.iterdir()]


def test_a_signal_to_everybody_ends_all_cleanly(serve: Serve) -> None:
    server = serve("--data", "d", "--workers", "2")
    server.line("listening")
    for pid in workers_of(server):
        os.kill(pid, signal.SIGTERM)
    assert server.stop() == 0


def test_data_stays_when_the_number_of_workers_changes(serve: Serve) -> None:
    for round_, workers in enumerate(("1", "3", "2", "1")):
        server = serve("--data", "d", "--dev", "--workers", workers, MANY_PARTITIONS)
        address = server.address
        produce(address, round_ * RECORDS)
        expected = list(range(round_ * RECORDS, (round_ + 1) * RECORDS))
        assert read_on(address, RECORDS) == expected
        processes = workers_of(server)
        # The workers of a parent that is killed end by themselves.
        server.stop(signal.SIGKILL if workers == "2" else signal.SIGTERM)
        wait_until(lambda: not any(map(is_alive, processes)))  # noqa: B023


@pytest.mark.parametrize("workers", ["1", "2", "3"])
def test_a_second_server_on_the_same_directory_is_refused(serve: Serve, workers: str) -> None:
    serve("--data", "d", "--workers", "2").line("listening")
    second = serve("--data", "d", "--workers", workers)
    assert second.wait() == 2
    assert "in use by process" in second.lines[-1]


def test_a_port_that_is_taken_is_refused_before_anything_is_made(
    serve: Serve, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1] - 1
        server = serve("--data", "d", "--workers", "2", "--listen", f"127.0.0.1:{port}")
        assert server.wait() == 2
    assert not (tmp_path / "d").exists()
    assert "is in use by another process" in server.lines[-1]


def test_listeners_need_room_for_the_ports_of_all_workers(serve: Serve) -> None:
    server = serve(
        "--memory", "--workers", "2", "--listen", "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"
    )
    assert server.wait() == 2
    assert "PLAINTEXT and SSL are too close to each other" in server.lines[-1]


IN_CLUSTER = (
    "--set=cluster.rebalance.delay.ms=0",
    "--set=offsets.topic.num.partitions=3",
    "--set=transaction.state.log.num.partitions=3",
    "--set=group.initial.rebalance.delay.ms=0",
    MANY_PARTITIONS,
)


def test_workers_in_a_database_are_nodes_of_its_cluster(serve: Serve, database: str) -> None:
    """Two parents, as of two machines: a worker that is killed is replaced, and comes back."""
    http = ("--http", "127.0.0.1:0")
    server = serve("--storage", database, "--workers", "2", *http, *IN_CLUSTER)
    addresses = addresses_of(server)
    wait_until(lambda: get(server, "/ready")[0] == 200)
    other = serve("--storage", database, "--workers", "2", "--set=node.id=2", *IN_CLUSTER)
    everybody = ",".join((*addresses, *addresses_of(other)))
    produce(everybody)
    os.kill(workers_of(server)[1], signal.SIGKILL)
    produce(everybody, RECORDS)  # waits for the leader of some
    assert "node=1" in server.line("worker is serving again")
    assert read_on(addresses[1], 2 * RECORDS) == list(range(2 * RECORDS))
    assert 'kohort_worker_restarts_total{node="1"} 1' in get(server, "/metrics")[1]
    groups = json.loads(get(server, "/groups")[1])
    assert [each["group_id"] for each in groups["groups"]] == ["g"]
    assert server.stop() == 0
    produce(everybody, 2 * RECORDS)
    assert read_on(everybody, RECORDS) == list(range(2 * RECORDS, 3 * RECORDS))
    assert other.stop() == 0


def test_the_node_id_of_another_machine_is_refused(serve: Serve, database: str) -> None:
    serve("--storage", database, "--workers", "2", *IN_CLUSTER).line("listening")
    second = serve("--storage", database, "--workers", "2", "--set=node.id=1", *IN_CLUSTER)
    assert second.wait() == 2
    why = r"another process( at PLAINTEXT://127\.0\.0\.1:\d+)? serves as node 1 from this database"
    assert re.search(why, second.lines[-1])
