"""Measure how long a restarted server takes to serve: `python -m benchmarks.loading`

It prints, for a server with 1,000,000 committed offsets in 10,000 groups, and for one with 10,000
topics,

- the time from the start of the process until its port accepts connections
- the time until the first and the last of 200 groups answer OffsetFetch
- processor time of the server until then, and its resident memory.

Options: `--groups`, `--partitions` (of each group), `--topics`.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kohort.client.admin.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId, TopicPartition

TOPIC = "loading"
AT_ONCE = 100
ASKED = 200
"""Groups that ask for their offsets: some of each shard, without being a load of their own."""


async def fill_groups(address: str, groups: int, partitions: int) -> None:
    """Commit one offset of each partition in each group, one request for each group."""
    offsets = {
        TopicPartition(TOPIC, number): OffsetAndMetadata(offset=number)
        for number in range(partitions)
    }
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        admin = Admin(cluster)
        await admin.create_topic(TOPIC, partitions=partitions)
        for first in range(0, groups, AT_ONCE):
            ids = range(first, min(first + AT_ONCE, groups))
            await asyncio.gather(*(admin.commit(group_id(each), offsets) for each in ids))


async def fill_topics(address: str, topics: int) -> None:
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        admin = Admin(cluster)
        for first in range(0, topics, AT_ONCE):
            ids = range(first, min(first + AT_ONCE, topics))
            await asyncio.gather(*(admin.create_topic(f"topic-{each}") for each in ids))


async def served(address: str, groups: Sequence[GroupId]) -> list[float]:
    """When each of these groups answered with its offsets."""

    async def one(admin: Admin, group: GroupId) -> float:
        answers = await admin.committed([group], [TopicPartition(TOPIC, 0)])
        assert isinstance(answers[group], dict), answers[group]
        assert answers[group]
        return time.monotonic()

    config = ClientConfig(bootstrap=address, retry_backoff_ms=100, retry_backoff_max_ms=100)
    async with Cluster(config) as cluster:
        admin = Admin(cluster)
        return await asyncio.gather(*(one(admin, group) for group in groups))


def group_id(number: int) -> GroupId:
    return GroupId(f"group-{number:05}")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def measure_offsets(data: Path, log: Path, groups: int, partitions: int) -> None:
    with ServerProcess(f"--data={data}", log=log) as server:
        asyncio.run(fill_groups(server.address, groups, partitions))
    with ServerProcess(f"--data={data}", log=log) as server:
        address = server.address
        listening = time.monotonic() - server.started
        asked = [group_id(each) for each in range(0, groups, max(groups // ASKED, 1))]
        times = [each - server.started for each in asyncio.run(served(address, asked))]
        print(
            f"{groups * partitions:,} offsets in {groups:,} groups: listening {listening:.2f} s, "
            f"first group {min(times):.2f} s, last {max(times):.2f} s, "
            f"processor {cpu_s(server.process.pid):.2f} s, "
            f"{resident_mb(server.process.pid):.0f} MB"
        )


def measure_topics(data: Path, log: Path, topics: int) -> None:
    with ServerProcess(f"--data={data}", log=log) as server:
        asyncio.run(fill_topics(server.address, topics))
    with ServerProcess(f"--data={data}", log=log) as server:
        assert server.address
        listening = time.monotonic() - server.started
        print(
            f"{topics:,} topics: listening {listening:.2f} s, "
            f"processor {cpu_s(server.process.pid):.2f} s, {resident_mb(server.process.pid):.0f} MB"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--topics", type=int, default=10_000)
    options, _ = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kohort-loading-") as directory:
        path = Path(directory)
        if options.groups:
            measure_offsets(
                path / "offsets", path / "offsets.log", options.groups, options.partitions
            )
        if options.topics:
            measure_topics(path / "topics", path / "topics.log", options.topics)


if __name__ == "__main__":
    main()
