"""Changes of topics, ACLs, quotas and users through nodes that are killed and suspended at random.

What must hold afterwards: all nodes know the same; of each name there is one id; what a client was
told to be done stands. A client gives a topic up once it does not know whether a change was made.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from kohort.client import ClientConfig
from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode, KohortError
from live.cluster.nodes import NODES, Nodes
from peers.postgres import Postgres
from server.test_postgres_changes import Requests

CLIENTS = 4
SHARED = ("orders", "or.ders", "payments")
"""Names that all clients change."""
ANSWERED_WITHIN_S = 15.0
AGREED_WITHIN_S = 90.0
HANGS_S = (0.5, 6.0)
AWAY_S = (0.0, 3.0)
SETTINGS = {
    "cluster.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

State: TypeAlias = tuple[int, int | None]
"""Partitions and `retention.ms` of a topic."""


@dataclass
class Outcome:
    told: int = 0
    """Changes that were told to be done."""
    unknown: int = 0
    faults: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Changes:
    """A run of so many seconds."""

    def __init__(self, directory: Path, *, seed: int, seconds: float) -> None:
        self._random = random.Random(seed)
        self._seconds = seconds
        self._postgres = Postgres.start()
        self._nodes = Nodes(self._postgres.url, directory, SETTINGS)
        self._directory = directory
        self._wanted: dict[str, State | None] = {}
        """Topics as they were told to be by their only client; None: deleted."""
        self.outcome = Outcome()

    def run(self) -> Outcome:
        try:
            self._nodes.start_all()
            asyncio.run(self._run())
        finally:
            self._nodes.stop()
            self._postgres.stop()
        return self.outcome

    async def _run(self) -> None:
        end = time.monotonic() + self._seconds
        async with Cluster(ClientConfig(bootstrap=self._nodes.address)) as cluster:
            await cluster.metadata(())
            requests = Requests(cluster)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fail_until(end))
                for number in range(CLIENTS):
                    group.create_task(self._change_until(end, number, requests))
        self.outcome.violations += self._nodes.ended()
        await asyncio.to_thread(self._nodes.await_listening)
        await self._check()

    async def _fail_until(self, end: float) -> None:
        while time.monotonic() < end:
            node = self._random.choice(self._nodes.running)
            if self._random.random() < 0.5:
                self.outcome.faults.append(f"kill {node}")
                await asyncio.to_thread(self._nodes.end, node, signal.SIGKILL)
                await asyncio.sleep(self._random.uniform(*AWAY_S))
                self._nodes.start(node)
            else:
                self.outcome.faults.append(f"hang {node}")
                self._nodes.hang(node)
                await asyncio.sleep(self._random.uniform(*HANGS_S))
                self._nodes.go_on(node)
            self.outcome.violations += self._nodes.ended()
            await asyncio.sleep(self._random.uniform(0.5, 2))

    # Clients

    async def _change_until(self, end: float, number: int, requests: Requests) -> None:
        topic, count = f"topic-{number}-0", 0
        while time.monotonic() < end:
            node = self._random.choice(NODES)
            if self._random.random() < 0.4:
                await self._code(self._shared(requests, node))
                continue
            if not await self._change_own(requests, node, topic):
                self._wanted.pop(topic, None)
                count += 1
                topic = f"topic-{number}-{count}"

    async def _change_own(self, requests: Requests, node: int, topic: str) -> bool:
        """Change a topic as nobody else does; False if that may or may not have been done."""
        state = self._wanted.get(topic)
        done: State | None
        if state is None:
            change, done = requests.create(node, topic), (2, None)
        else:
            partitions, retention = state
            match self._random.choice(("delete", "grow", "alter")):
                case "delete":
                    change, done = requests.delete(node, topic), None
                case "grow":
                    change = requests.grow(node, topic, partitions + 1)
                    done = partitions + 1, retention
                case _:
                    ms = self._random.randrange(60_000, 90_000)
                    change, done = requests.set_retention(node, topic, ms), (partitions, ms)
        code = await self._code(change)
        if code is ErrorCode.none:
            self._wanted[topic] = done
            return True
        if code in (
            ErrorCode.topic_already_exists,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.invalid_partitions,
        ):
            text = f"{topic}, which is {state}, cannot become {done}: {code!r}"
            self.outcome.violations.append(text)
        return False

    def _shared(self, requests: Requests, node: int) -> Any:
        name = self._random.choice(SHARED)
        changes: tuple[Callable[[], Any], ...] = (
            lambda: requests.create(node, name),
            lambda: requests.create_by_metadata(node, name),
            lambda: requests.delete(node, name),
            lambda: requests.grow(node, name, self._random.randint(2, 20)),
            lambda: requests.set_retention(node, name, self._random.randrange(60_000, 90_000)),
            lambda: requests.create_acl(node),
            lambda: requests.delete_acl(node),
            lambda: requests.set_quota(node, remove=self._random.random() < 0.5),
            lambda: requests.add_user(node),
            lambda: requests.remove_user(node),
        )
        return self._random.choice(changes)()

    async def _code(self, change: Any) -> ErrorCode | None:
        """The error code of a change; None if there was no answer."""
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                code = await change
        except (KohortError, OSError):
            self.outcome.unknown += 1
            await asyncio.sleep(0.05)
            return None
        self.outcome.told += code == ErrorCode.none
        return ErrorCode(code)

    # Checking

    async def _check(self) -> None:
        known: list[Any] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGREED_WITHIN_S):
                while not (known and all(each == known[0] for each in known[1:])):
                    await asyncio.sleep(0.5)
                    with contextlib.suppress(KohortError, OSError):
                        known = [await self._known_by(node) for node in NODES]
        self.outcome.violations += self._nodes.ended()
        self.outcome.violations += self._wrong(known)
        for node in NODES:
            text = (self._directory / f"node-{node}.log").read_text(errors="replace")
            if "Traceback" in text:
                at = text.index("Traceback")
                self.outcome.violations.append(
                    f"node {node}: {text[max(0, at - 500) : at + 3_000]}"
                )

    async def _known_by(self, node: int) -> tuple[dict[str, Any], Any, Any]:
        """Topics with their ids, partitions and leaders, ACLs and users, as one node tells them."""
        async with Cluster(ClientConfig(bootstrap=self._nodes.address_of(node))) as cluster:
            await cluster.metadata(())
            connection = await cluster.connection(node)
            told = await connection.send(
                "metadata", topics=None, allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )  # fmt: skip
            topics = {}
            for each in told.topics:
                leaders = sorted((p.partition_index, p.leader_id) for p in each.partitions)
                if any(leader < 0 for _, leader in leaders):
                    raise KohortError(f"{each.name} has partitions without a leader")
                retention = await self._retention(connection, each.name)
                topics[each.name] = (each.topic_id, leaders, retention)
            acls = await connection.send(
                "describe_acls", resource_type_filter=1, resource_name_filter=None,
                pattern_type_filter=1, principal_filter=None, host_filter=None, operation=1,
                permission_type=1,
            )  # fmt: skip
            users = await connection.send("describe_user_scram_credentials", users=None)
            return topics, acls.resources, users.results

    async def _retention(self, connection: Any, topic: str) -> str | None:
        resource = {
            "resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms"],
        }  # fmt: skip
        told = await connection.send(
            "describe_configs", resources=[resource], include_synonyms=False,
            include_documentation=False,
        )  # fmt: skip
        (entry,) = told.results[0].configs
        value: str | None = entry.value
        return value

    def _wrong(self, known: list[Any]) -> Iterator[str]:
        if not known or any(each != known[0] for each in known[1:]):
            yield f"the nodes do not agree: {known}"
            return
        topics = known[0][0]
        ids = [each[0] for each in topics.values()]
        if len(ids) != len(set(ids)):
            yield f"topics with one id: {topics}"
        for name, wanted in self._wanted.items():
            found = topics.get(name)
            if wanted is None or found is None:
                if (wanted is None) != (found is None):
                    yield f"{name} was told to be {wanted}, and is {found}"
                continue
            partitions, retention = wanted
            if len(found[1]) != partitions or (retention and found[2] != str(retention)):
                yield f"{name} was told to be {wanted}, and is {found}"
