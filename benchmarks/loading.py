"""Measure how long a restarted server takes to serve: `python -m benchmarks.loading`

One server has 1,000,000 committed offsets in 10,000 groups, another 10,000 topics. Each was stopped
by SIGTERM, and its files are in the page cache. Every round starts it again, and prints

- the time from the start of the process until its port accepts connections
- the time until the first and the last of 200 groups get their OffsetFetch response
- processor time of the server until then, and its resident memory
- the time that it takes to stop.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import rounds
from benchmarks.report import Column, Target, publish, servers_table
from kohort.client.admin.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId, TopicPartition

GROUPS: Final = 10_000
PARTITIONS: Final = 100
TOPICS: Final = 10_000
TOPIC: Final = "loading"
AT_ONCE: Final = 100
ASKED: Final = 200
"""Groups that ask for their offsets: some of each shard, without being a load of their own."""
COLUMNS: Final = (
    Column("listening, s", "listening_s"),
    Column("first group, s", "first_s"),
    Column("last group, s", "last_s"),
    Column("CPU, s", "cpu_s"),
    Column("RSS, MB", "resident_mb"),
    Column("stop, s", "stop_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Figures of one start of a server, NOT_MEASURED where one does not apply."""

    listening_s: float
    first_s: float = rounds.NOT_MEASURED
    last_s: float = rounds.NOT_MEASURED
    cpu_s: float
    resident_mb: float
    stop_s: float


def main(argv: Sequence[str] | None = None) -> None:
    """Fill both servers, restart them in turns, and write the section."""
    plan = rounds.plan(__doc__, servers=("kohort-data",), seconds=0, argv=argv)
    samples = rounds.Samples(
        {
            "offsets": f"{GROUPS * PARTITIONS:,} offsets in {GROUPS:,} groups",
            "topics": f"{TOPICS:,} topics",
        }
    )
    with tempfile.TemporaryDirectory(prefix="kohort-loading-") as directory:
        offsets, topics = Path(directory, "offsets"), Path(directory, "topics")
        _fill(offsets, fill_groups)
        _fill(topics, fill_topics)
        for number in range(plan.rounds):
            for key, data in (("offsets", offsets), ("topics", topics)):
                sample = _restart(data, asks_groups=key == "offsets")
                print(f"  {key}: round {number + 1}: {rounds.described(sample)}", flush=True)
                samples.add(key, sample)
    parts = [servers_table(samples, COLUMNS, of="data"), "\n".join(map(str, _targets(samples)))]
    publish("loading", "Restart with much data", parts, write=plan.write)


def _targets(samples: rounds.Samples) -> list[Target]:
    return [
        Target("the last group, s", samples.median("offsets", "last_s"), 5, at_least=False),
        Target("10,000 topics, s", samples.median("topics", "listening_s"), 1.5, at_least=False),
    ]


def _server(data: Path) -> ServerProcess:
    return ServerProcess(f"--data={data}", log=data.with_suffix(".log"))


def _fill(data: Path, fill: Callable[[str], object]) -> None:
    with _server(data) as server:
        fill(server.address)


def _restart(data: Path, *, asks_groups: bool) -> Restart:
    with _server(data) as server:
        address = server.address
        listening_s = time.monotonic() - server.started
        times = [rounds.NOT_MEASURED]
        if asks_groups:
            times = [each - server.started for each in asyncio.run(served(address))]
        taken_s, rss_mb = cpu_s(server.process.pid), resident_mb(server.process.pid)
        begun = time.monotonic()
        server.stop()
        return Restart(
            listening_s=listening_s,
            first_s=min(times),
            last_s=max(times),
            cpu_s=taken_s,
            resident_mb=rss_mb,
            stop_s=time.monotonic() - begun,
        )


def fill_groups(address: str, groups: int = GROUPS) -> None:
    """Commit one offset of each partition in each group, one request for each group."""
    offsets = {
        TopicPartition(TOPIC, number): OffsetAndMetadata(offset=number)
        for number in range(PARTITIONS)
    }

    async def fill() -> None:
        async with Cluster(ClientConfig(bootstrap=address)) as cluster:
            admin = Admin(cluster)
            await admin.create_topic(TOPIC, partitions=PARTITIONS)
            for first in range(0, groups, AT_ONCE):
                some = range(first, first + AT_ONCE)
                await asyncio.gather(*(admin.commit(_group_id(each), offsets) for each in some))

    asyncio.run(fill())


def fill_topics(address: str) -> None:
    """Create the topics, each with one partition."""

    async def fill() -> None:
        async with Cluster(ClientConfig(bootstrap=address)) as cluster:
            admin = Admin(cluster)
            for first in range(0, TOPICS, AT_ONCE):
                some = range(first, first + AT_ONCE)
                await asyncio.gather(*(admin.create_topic(f"topic-{each}") for each in some))

    asyncio.run(fill())


async def served(address: str, groups: int = GROUPS) -> list[float]:
    """When each of the groups that are asked got its offsets."""
    asked = range(0, groups, max(groups // ASKED, 1))

    async def one(admin: Admin, group: GroupId) -> float:
        responses = await admin.committed([group], [TopicPartition(TOPIC, 0)])
        assert isinstance(responses[group], dict), responses[group]
        assert responses[group]
        return time.monotonic()

    config = ClientConfig(bootstrap=address, retry_backoff_ms=100, retry_backoff_max_ms=100)
    async with Cluster(config) as cluster:
        admin = Admin(cluster)
        return await asyncio.gather(*(one(admin, _group_id(each)) for each in asked))


def _group_id(number: int) -> GroupId:
    return GroupId(f"group-{number:05}")


def cpu_s(pid: int) -> float:
    """Processor time of a process by now (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process (MB)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
